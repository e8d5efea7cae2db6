"""Strategies for what players say: moments of one brain, with any legal agents, numbers and masks."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from runtime.experience.brains import ActionSpec, BrainName, BrainParameters
from tests.support.player_messages import Agent, Moment
from tests.support.strategies_experience import action_specs, observation_specs

INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1


def floats() -> SearchStrategy[float]:
    """Finite numbers of 32 bits, the smallest and -0.0 included."""
    return st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def moments(draw: st.DrawFn, name: str = "Bot", *, agents_max: int = 6) -> Moment:
    """A brain and agents of it: waiting ones with ids of their own, and ended ones with any."""
    brain = BrainParameters(
        BrainName(name), tuple(draw(st.lists(observation_specs(), max_size=3))), draw(action_specs())
    )
    ids = st.integers(INT32_MIN, INT32_MAX)
    waiting = draw(st.lists(ids, unique=True, max_size=agents_max))
    ended = draw(st.lists(ids, max_size=3))
    return Moment(
        brain,
        tuple(
            draw(_agents(brain, each, done=done))
            for done, all_ids in ((True, ended), (False, waiting))
            for each in all_ids
        ),
    )


@st.composite
def _agents(draw: st.DrawFn, brain: BrainParameters, agent: int, *, done: bool) -> Agent:
    sizes = [int(np.prod(spec.shape)) for spec in brain.observation_specs]
    return Agent(
        id=agent,
        observations=tuple(tuple(draw(st.lists(floats(), min_size=size, max_size=size))) for size in sizes),
        reward=draw(floats()),
        done=done,
        max_step_reached=done and draw(st.booleans()),
        mask=() if done else draw(_masks(brain.action_spec)),
        group_id=draw(st.integers(0, 5)),
        group_reward=draw(floats()),
    )


@st.composite
def _masks(draw: st.DrawFn, spec: ActionSpec) -> tuple[bool, ...]:
    """No mask, one of a wrong length, or one that leaves an action in each branch."""
    if not spec.mask_size or draw(st.booleans()):
        return draw(st.sampled_from([(), (True,) * (spec.mask_size + 1)]))
    mask: list[bool] = []
    for size in spec.discrete_branches:
        branch = draw(st.lists(st.booleans(), min_size=size, max_size=size))
        branch[draw(st.integers(0, size - 1))] = False
        mask += branch
    return tuple(mask)
