"""Training sequences start with what the agent remembered, wherever episodes, blocks, updates and losses cut."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from runtime.experience.blocks import BlockBuilder
from runtime.experience.brains import EnvId, Incarnation
from runtime.experience.columns import RowKind
from runtime.learner import MemorySettings
from tests.support.blocks import replay
from tests.support.experience_streams import small_brain, small_learner, small_settings
from tests.support.remembering import remembering
from tests.support.strategies_experience import ResetEvent, StepHistory, step_histories
from trainers.batches import batch_of
from trainers.buffer import TransitionBuffer
from trainers.learner import PPOLearner

BRAIN = small_brain(continuous=1, branches=())
LENGTH = 3
SETTINGS = small_settings(memory=MemorySettings(memory_size=2, sequence_length=LENGTH), shared_critic=True)

lives = step_histories(BRAIN, events_max=30).map(lambda life: remembering(life, size=2, sequence_length=LENGTH))


def learner() -> PPOLearner:
    found = small_learner(SETTINGS, brains=[BRAIN])
    assert isinstance(found, PPOLearner)
    return found


def builder() -> BlockBuilder:
    found = BlockBuilder(EnvId(0), Incarnation(0))
    found.add_brains([BRAIN])
    return found


def assert_sequences_remember(buffer: TransitionBuffer, wires: list[str]) -> int:
    """Each action says which of its episode it is: so does the memory at a sequence's start, and so go its rows."""
    batch = batch_of(buffer, wires, 64)
    assert batch.sequences is not None
    rows = batch.sequences
    assert int(rows.length.sum()) == batch.count
    for first, length in zip(rows.first.tolist(), rows.length.tolist(), strict=True):
        assert length <= LENGTH
        assert rows.memories[first].tolist() == [batch.continuous[first, 0]] * 2
        expected = batch.continuous[first, 0] + np.arange(length)
        np.testing.assert_array_equal(batch.continuous[first : first + length, 0], expected)
    return len(rows.first)


@given(life=lives, cuts=st.sets(st.integers(0, 29)), data=st.data())
def test_a_sequence_starts_with_the_memory_from_before_its_first_step(
    life: StepHistory, cuts: set[int], data: st.DataObject
) -> None:
    ours = learner()
    behavior = ours._behaviors["Walker"]
    resets = {index for index, event in enumerate(life.events) if isinstance(event, ResetEvent)}
    for block in replay(builder(), life, cuts | resets):
        fate = data.draw(st.sampled_from(["kept", "kept", "kept", "stale", "update"]))
        if fate == "stale" and block.steps:
            # As the controller does with a block that is too old to be learned from.
            ours.cut(EnvId(0))
            continue
        ours.accept(block)
        if fate == "update":
            behavior.begin_update()
            assert behavior.in_flight is not None
            assert_sequences_remember(behavior.in_flight, behavior.wires)
            behavior.in_flight = None
    assert_sequences_remember(behavior.complete_buffer(), behavior.wires)


@given(life=lives)
def test_c37_with_episodes_that_end_inside_a_sequence_memories_are_of_before_the_step_and_zero_after_an_end(
    life: StepHistory,
) -> None:
    ours = learner()
    behavior = ours._behaviors["Walker"]
    ended: set[int] = set()
    for block in replay(builder(), life, set(range(30))):
        ours.accept(block)
        for columns in block.brains.values():
            memories = columns.memories
            for number, agent in enumerate(columns.action_agents.tolist()):
                assert memories is not None
                place = memories.actions.tolist().index(number)
                if agent in ended:
                    assert memories.before[place].tolist() == [0.0, 0.0]
                    assert memories.starts[number]
                    ended.discard(agent)
            ended |= set(columns.row_agents[columns.row_kinds != RowKind.DECISION].tolist())
    assert_sequences_remember(behavior.complete_buffer(), behavior.wires)
