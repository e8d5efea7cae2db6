"""Memories belong to agents: zero when an episode ends, kept through new policies, and told where sequences start."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from runtime.acting.memories import SILENT_AGENTS_MAX, AgentMemories, Remembered, given_memories
from runtime.experience.brains import ActionSpec, BrainInfo, BrainName, BrainParameters, Floats, ObservationSpec
from tests.support.strategies_experience import build_info

BOT = BrainParameters(BrainName("Bot"), (ObservationSpec((1,)),), ActionSpec(1))
SIZE = 4


def _info(agents: list[int], ended: list[int] | None = None) -> BrainInfo:
    ids = np.array(agents, np.int64), np.array(ended or [], np.int64)
    return build_info(BOT, *ids, rng=np.random.default_rng(0))


def _recall(
    memories: AgentMemories, info: BrainInfo, *, version: int = 1, sequence_length: int = 8, brain: str = "Bot"
) -> Remembered:
    return memories.recall(brain, info, version=version, size=SIZE, sequence_length=sequence_length)


def _counted(before: Floats) -> Floats:
    return before + np.float32(1)


def _step(memories: AgentMemories, info: BrainInfo, *, version: int = 1, sequence_length: int = 8) -> Remembered:
    """One act of a policy that counts: the memory after k acts of an episode is k."""
    found = _recall(memories, info, version=version, sequence_length=sequence_length)
    memories.remember("Bot", info.decisions.agents, _counted(found.before))
    return found


def test_an_episode_starts_with_nothing_and_goes_on_with_what_was_remembered() -> None:
    memories = AgentMemories()
    assert _step(memories, _info([5, 3])).before.tolist() == [[0.0] * SIZE] * 2
    assert _step(memories, _info([3])).before.tolist() == [[1.0] * SIZE]
    assert _step(memories, _info([3, 5])).before.tolist() == [[2.0] * SIZE, [1.0] * SIZE]


def test_an_ended_episode_is_forgotten_before_the_next_one_of_the_same_agent_begins() -> None:
    memories = AgentMemories()
    _step(memories, _info([1, 2]))
    found = _step(memories, _info([2, 1], ended=[1]))
    assert found.before.tolist() == [[1.0] * SIZE, [0.0] * SIZE]
    assert found.starts.tolist() == [False, True]


def test_an_episode_that_ends_while_its_agent_asks_for_nothing_is_forgotten_too() -> None:
    memories = AgentMemories()
    _step(memories, _info([1, 2]))
    _step(memories, _info([2], ended=[1]))
    assert _step(memories, _info([1])).before.tolist() == [[0.0] * SIZE]


def test_nothing_is_left_after_a_reset() -> None:
    memories = AgentMemories()
    _step(memories, _info([1]))
    memories.clear()
    assert _step(memories, _info([1])).before.tolist() == [[0.0] * SIZE]


def test_a_memory_survives_a_new_policy_and_a_training_sequence_starts_there() -> None:
    memories = AgentMemories()
    _step(memories, _info([1, 2]), version=1)
    _step(memories, _info([1]), version=2)
    found = _step(memories, _info([1, 2]), version=2)
    assert found.before[:, 0].tolist() == [2.0, 1.0]
    assert found.starts.tolist() == [False, True]


def test_sequences_start_every_so_many_steps() -> None:
    memories = AgentMemories()
    starts = [bool(_step(memories, _info([1]), sequence_length=3).starts[0]) for _ in range(8)]
    assert starts == [True, False, False, True, False, False, True, False]


def test_brains_do_not_share_agents() -> None:
    memories = AgentMemories()
    _step(memories, _info([1]))
    assert _recall(memories, _info([1]), brain="Other").before.tolist() == [[0.0] * SIZE]


def test_what_was_recalled_does_not_change_when_the_agent_acts_again() -> None:
    memories = AgentMemories()
    first = _step(memories, _info([1]))
    _step(memories, _info([1]))
    assert first.before.tolist() == [[0.0] * SIZE]


def test_silent_agents_are_forgotten_beyond_a_limit() -> None:
    memories = AgentMemories()
    _step(memories, _info([-1]))
    _step(memories, _info(list(range(SILENT_AGENTS_MAX + 1))))
    assert _step(memories, _info([0])).before.tolist() == [[1.0] * SIZE]
    assert _step(memories, _info([-1])).before.tolist() == [[0.0] * SIZE]


def test_without_a_book_memories_are_those_of_the_request_or_zero() -> None:
    info = _info([1, 2])
    assert given_memories(info, SIZE).before.tolist() == [[0.0] * SIZE] * 2
    kept = BrainInfo(info.decisions, info.terminals, memories=np.full((2, SIZE), 3, np.float32))
    assert given_memories(kept, SIZE).before.tolist() == [[3.0] * SIZE] * 2


@given(data=st.data(), sequence_length=st.integers(1, 5))
def test_any_history_agrees_with_a_dictionary_of_lists(data: st.DataObject, sequence_length: int) -> None:
    memories, model = AgentMemories(), dict[int, list[int]]()
    for _ in range(data.draw(st.integers(1, 12))):
        ended = sorted(each for each in model if data.draw(st.booleans()))
        agents = data.draw(st.lists(st.integers(0, 40), unique=True))
        version = data.draw(st.integers(1, 2))
        for agent in ended:
            del model[agent]
        found = _step(memories, _info(agents, ended), version=version, sequence_length=sequence_length)
        for row, agent in enumerate(agents):
            acts, steps, acted = model.get(agent, [0, 0, version])
            is_start = steps in (0, sequence_length) or acted != version
            assert found.before[row].tolist() == [acts] * SIZE
            assert bool(found.starts[row]) == is_start
            model[agent] = [acts + 1, 1 if is_start else steps + 1, version]
