"""Invariants of every world, whatever legal actions arrive and whenever it is reset."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fakeunity.rows import Actions, BehaviorSpec, Rows
from fakeunity.scenes.catalogue import SCENES, open_world

IDS_MAX = 2**31 - 1


def check(spec: BehaviorSpec, rows: Rows) -> None:
    """What the wire and the player rely on."""
    count = len(rows.ids)
    assert rows.ids.dtype == np.int64
    assert ((rows.ids >= 0) & (rows.ids <= IDS_MAX)).all()
    for dtype, column in ((np.float32, rows.rewards), (np.bool_, rows.done), (np.bool_, rows.interrupted)):
        assert column.dtype == dtype
        assert column.shape == (count,)
    assert np.isfinite(rows.rewards).all()
    assert not (rows.interrupted & ~rows.done).any()
    for ids in (rows.ids[rows.done], rows.waiting()):
        assert len(set(ids.tolist())) == len(ids)
    for sensor, seen in zip(spec.observations, rows.observations, strict=True):
        assert seen.dtype == np.float32
        assert seen.shape == (count, sensor.size)
        assert (np.abs(seen) <= 2.0).all(), "observations are scaled to about 1"
    if rows.mask is not None:
        ends = np.cumsum(spec.branches)[:-1]
        assert all(not branch.all(axis=1).any() for branch in np.split(rows.mask, ends, axis=1))


def drawn_actions(spec: BehaviorSpec, rows: Rows, rng: np.random.Generator) -> Actions:
    """Random legal actions; continuous ones beyond the range too."""
    count = len(rows.waiting())
    size = sum(spec.branches)
    allowed = np.ones((count, size), np.bool_) if rows.mask is None else ~rows.mask[~rows.done]
    liking = rng.random((count, size)) * allowed
    branches = np.split(liking, np.cumsum(spec.branches)[:-1], axis=1) if spec.branches else []
    discrete = np.array([branch.argmax(axis=1) for branch in branches], np.int64).reshape(len(branches), count).T
    continuous = rng.uniform(-2, 2, (count, spec.continuous)).astype(np.float32)
    return Actions(continuous, discrete)


@settings(max_examples=30)
@given(
    scene=st.sampled_from(sorted(SCENES)),
    agents=st.integers(1, 40),
    seeds=st.tuples(st.integers(0, 2**31 - 1), st.integers(-(2**63), 2**63 - 1)),
    steps=st.integers(0, 260),
    resets=st.sets(st.integers(0, 260), max_size=3),
)
def test_rows_are_well_formed_and_every_outcome_belongs_to_a_decision(
    scene: str, agents: int, seeds: tuple[int, int], steps: int, resets: set[int]
) -> None:
    rng = np.random.default_rng(seeds[0])
    world = open_world(scene, agents=agents, handshake_seed=seeds[0], url_seed=seeds[1])
    specs = {spec.name: spec for spec in world.specs}
    rows = world.reset()
    decided: dict[str, set[int]] = {name: set() for name in specs}
    known: set[str] = set()
    for step in range(steps):
        for name, sent in rows.items():
            check(specs[name], sent)
        assert known <= set(rows), "a behavior that appeared stays"
        known |= set(rows)
        if step in resets:
            rows = world.reset()
            assert all(not sent.done.any() and not sent.rewards.any() for sent in rows.values())
            decided = {name: set() for name in specs}
            continue
        for name, sent in rows.items():
            decided[name] |= set(sent.waiting().tolist())
        before = rows
        rows = world.step({name: drawn_actions(specs[name], sent, rng) for name, sent in before.items()})
        for name, sent in rows.items():
            finished = set(sent.ids[sent.done].tolist())
            assert finished <= decided[name], "an episode ended without a decision"
            assert set(sent.ids[sent.rewards != 0].tolist()) <= decided[name], "a reward without a decision"
            decided[name] -= set(sent.ids.tolist())


@given(scene=st.sampled_from(sorted(SCENES)), agents=st.integers(1, 20))
def test_default_actions_are_legal_and_complete(scene: str, agents: int) -> None:
    world = open_world(scene, agents=agents, handshake_seed=1, url_seed=2)
    rows = world.reset()
    for spec in world.specs[:1]:
        actions = world.default_actions(spec, rows[spec.name])
        assert actions.continuous.shape == (agents, spec.continuous)
        assert actions.discrete.shape == (agents, len(spec.branches))
        mask = rows[spec.name].mask
        if mask is not None:
            offsets = np.cumsum((0, *spec.branches[:-1]))
            assert not np.take_along_axis(mask, actions.discrete + offsets, axis=1).any()
