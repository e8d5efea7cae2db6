"""A reply that is recognised is read as the library reads it; all others are left to the library."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import TrainingError
from runtime.experience.brains import ActionSpec, AllBrainInfo, DecisionRows, TerminalRows
from runtime.players.codec import Known, decode_reply, parse_message
from runtime.players.guards import Guard
from runtime.players.look_alikes import LENGTHS_MAX, MISSES_AT_FIRST, MISSES_LATER, TEMPLATES_MAX, LookAlikes
from runtime.players.places import Place
from runtime.players.spans import agents_by_brain
from tests.support.player_messages import Agent, Moment, output_message, simple_agent, simple_brain
from tests.support.strategies_messages import floats, moments

PLACE = Place(env_id=3, incarnation=2, step=17)


def read_in_full(body: bytes, known: Known) -> AllBrainInfo | None:
    """What the library reads, or None where it refuses, or where the message says more than rows."""
    try:
        message = parse_message(body, PLACE)
        reply, after = decode_reply(message, known, Guard(PLACE))
    except TrainingError:
        return None
    output = message.unity_output
    is_more = after is not known or output.rl_output.side_channel or output.HasField("rl_initialization_output")
    return None if is_more or message.header.status != 200 else reply.infos


def known_after(moment_list: Sequence[Moment]) -> Known:
    message = output_message(moment_list, announced=[each.brain for each in moment_list])
    return decode_reply(message, Known(), Guard(PLACE))[1]


def bytes_of(moment_list: Sequence[Moment]) -> bytes:
    return output_message(moment_list).SerializeToString(deterministic=True)


def learned(body: bytes, known: Known) -> LookAlikes:
    look_alikes = LookAlikes()
    infos = read_in_full(body, known)
    assert infos is not None
    for _ in range(MISSES_AT_FIRST):
        assert look_alikes.read(body) is None
        look_alikes.learn(body, infos, known.brains)
    return look_alikes


def rows_of(infos: AllBrainInfo) -> list[object]:
    """Everything in it, so that equal means equal to the last bit."""
    found: list[object] = []
    for name, info in infos.items():
        found.append((name, info.worker_id))
        for rows in (info.decisions, info.terminals):
            found += [_bits(each) for each in _columns(rows)]
    return found


def _columns(rows: DecisionRows | TerminalRows) -> list[object]:
    own = rows.action_masks if isinstance(rows, DecisionRows) else rows.interrupted
    return [rows.agents, *rows.observations, rows.rewards, own, rows.group_ids, rows.group_rewards]


def _bits(column: object) -> object:
    return (column.dtype, column.shape, column.tobytes()) if isinstance(column, np.ndarray) else column


@given(st.data())
def test_what_is_recognised_is_what_the_library_reads(data: st.DataObject) -> None:
    """The same moment in other numbers, and then any bytes changed in any way."""
    moment = data.draw(moments().filter(lambda each: bool(each.agents)))
    known = known_after([moment])
    body = bytes_of([moment])
    look_alikes = learned(body, known)
    changed = bytearray(body)
    rng = random.Random(data.draw(st.integers(0, 2**32), label="edits"))
    for agents in agents_by_brain(body).values():
        for span in [each.reward for each in agents] + [o for each in agents for o in each.observations]:
            for at in range(*span, 4) if span is not None else ():
                changed[at : at + 4] = struct.pack("<f", rng.uniform(-3, 3))
    numbers_alone = bytes(changed)
    for _ in range(data.draw(st.integers(0, 3), label="stray bytes")):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    for each in (body, numbers_alone, bytes(changed)):
        recognised = look_alikes.read(each)
        expected = read_in_full(each, known)
        if recognised is not None:
            assert expected is not None
            assert rows_of(recognised) == rows_of(expected)


@given(st.lists(floats(), min_size=8, max_size=8), st.permutations(range(1, 5)), st.integers(0, 3))
def test_other_numbers_and_other_agents_are_recognised(numbers: list[float], ids: list[int], group: int) -> None:
    brain = simple_brain(sizes=(2,))
    agents = [
        Agent(id=n, observations=((1.0, 2.0),), reward=0.5, group_id=group, done=n == 4, max_step_reached=True)
        for n in range(1, 5)
    ]
    known = known_after([Moment(brain, tuple(agents))])
    look_alikes = learned(bytes_of([Moment(brain, tuple(agents))]), known)
    others = [
        replace(each, id=ids[n], reward=2.5, observations=((numbers[2 * n], numbers[2 * n + 1]),))
        for n, each in enumerate(agents)
    ]
    body = bytes_of([Moment(brain, tuple(others))])
    recognised, expected = look_alikes.read(body), read_in_full(body, known)
    assert recognised is not None
    assert expected is not None
    assert rows_of(recognised) == rows_of(expected)
    assert recognised["Bot"].decisions.agents.tolist() == ids[:3]


def test_masks_may_change_but_a_branch_without_a_choice_is_left_to_the_library() -> None:
    brain = simple_brain(actions=ActionSpec(0, (2, 2)))

    def body(*masks: tuple[bool, ...]) -> bytes:
        agents = tuple(replace(simple_agent(brain, n), mask=mask) for n, mask in enumerate(masks, 1))
        return bytes_of([Moment(brain, agents)])

    free, first, stuck = (False,) * 4, (True, False, False, True), (False, False, True, True)
    known = known_after([Moment(brain, (simple_agent(brain, 1),))])
    look_alikes = learned(body(first, free), known)
    swapped = look_alikes.read(body(free, first))
    assert swapped is not None
    masks = swapped["Bot"].decisions.action_masks
    assert masks is not None
    assert masks.tolist() == [[not each for each in mask] for mask in (free, first)]
    nothing = look_alikes.read(body(free, free))
    assert nothing is not None
    assert nothing["Bot"].decisions.action_masks is None
    assert look_alikes.read(body(first, stuck)) is None


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("where", ["reward", "observations"])
def test_numbers_that_are_not_finite_are_left_to_the_library(bad: float, where: str) -> None:
    brain = simple_brain(sizes=(1,))
    agent = Agent(id=1, observations=((0.5,),), reward=0.5)
    known = known_after([Moment(brain, (agent,))])
    look_alikes = learned(bytes_of([Moment(brain, (agent,))]), known)
    wrong = replace(agent, reward=bad) if where == "reward" else replace(agent, observations=((bad,),))
    assert look_alikes.read(bytes_of([Moment(brain, (wrong,))])) is None


def test_an_id_of_more_than_32_bits_is_cut_as_the_library_cuts_it() -> None:
    brain = simple_brain()
    moment = Moment(brain, (simple_agent(brain, -1),))
    known, body = known_after([moment]), bytes_of([moment])
    look_alikes = learned(body, known)
    ((agent,),) = agents_by_brain(body).values()
    assert agent.id is not None
    longer = bytearray(body)
    longer[agent.id[1] - 2] = 0x80  # bits that no int32 has
    recognised, expected = look_alikes.read(bytes(longer)), read_in_full(bytes(longer), known)
    assert recognised is not None
    assert expected is not None
    assert rows_of(recognised) == rows_of(expected)


def test_two_agents_of_one_id_are_left_to_the_library() -> None:
    brain = simple_brain()
    known = known_after([Moment(brain, (simple_agent(brain, 1),))])

    def body(*ids: int) -> bytes:
        return bytes_of([Moment(brain, tuple(simple_agent(brain, each) for each in ids))])

    look_alikes = learned(body(1, 2), known)
    assert look_alikes.read(body(3, 4)) is not None
    assert look_alikes.read(body(3, 3)) is None


def test_some_agents_without_a_reward_get_none() -> None:
    brain = simple_brain()
    agents = [replace(simple_agent(brain, n), reward=n % 2) for n in range(1, 5)]
    known = known_after([Moment(brain, tuple(agents))])
    body = bytes_of([Moment(brain, tuple(agents))])
    recognised = learned(body, known).read(body)
    assert recognised is not None
    assert recognised["Bot"].decisions.rewards.tolist() == [1.0, 0.0, 1.0, 0.0]


def test_what_is_remembered_is_bounded_and_templates_are_made_ever_more_rarely() -> None:
    brain = simple_brain(sizes=(1,))
    known = known_after([Moment(brain, (simple_agent(brain, 1),))])
    look_alikes = LookAlikes()

    def tell(ended: int, count: int) -> bool:
        """Whether such a reply was recognised; else it is learned."""
        agents = tuple(replace(simple_agent(brain, n + 1), done=n == ended) for n in range(count))
        body = bytes_of([Moment(brain, agents)])
        if look_alikes.read(body) is not None:
            return True
        infos = read_in_full(body, known)
        assert infos is not None
        look_alikes.learn(body, infos, known.brains)
        return False

    for ended in range(TEMPLATES_MAX):
        assert [tell(ended, 20) for _ in range(MISSES_AT_FIRST + 1)] == [False] * MISSES_AT_FIRST + [True]
    assert all(tell(ended, 20) for ended in range(TEMPLATES_MAX))
    assert not any(tell(19, 20) for _ in range(MISSES_LATER))
    assert tell(19, 20)
    assert not tell(0, 20), "the oldest made room"
    for count in range(1, LENGTHS_MAX + 1):
        tell(count, count)
    assert not tell(19, 20), "the oldest length made room"


def test_pictures_and_odd_encodings_are_never_learned() -> None:
    brain = simple_brain(sizes=(1,))
    agent = simple_agent(brain, 1)
    known = known_after([Moment(brain, (agent,))])
    plain = bytes_of([Moment(brain, (agent,))])
    message = output_message([Moment(brain, (agent,))])
    twice = message.SerializeToString() + b"\x12\x00"  # the output in two parts, which the library joins
    look_alikes = LookAlikes()
    infos = read_in_full(plain, known)
    assert infos is not None
    for _ in range(2 * MISSES_LATER):
        assert look_alikes.read(twice) is None
        look_alikes.learn(twice, infos, known.brains)


def test_new_brains_make_all_that_was_known_void() -> None:
    brain = simple_brain()
    moment = Moment(brain, (simple_agent(brain, 1),))
    body, known = bytes_of([moment]), known_after([moment])
    look_alikes = learned(body, known)
    assert look_alikes.read(body) is not None
    look_alikes.forget()
    assert look_alikes.read(body) is None
