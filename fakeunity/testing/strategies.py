"""Hypothesis strategies: plans of faults, and the players that have them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from fakeunity.faults.plan import NUMBERED, Fault, FaultPlan
from fakeunity.faults.verbs import VERBS, Value, Verb

_WORDS = st.text("abcdefghijklmnopqrstuvwxyzABCXYZ0123456789. _", max_size=12)


def fault_plans(
    *,
    verbs: Collection[str] | None = None,
    faults_max: int = 4,
    numbers_max: int = 200,
    once_folder: Path | None = None,
) -> SearchStrategy[FaultPlan]:
    """Plans of up to `faults_max` faults, none included.

    verbs: the kinds to choose from, all by default. numbers_max: of the resets, steps and exchanges at which they
    happen. once_folder: where `once` is remembered; without it no fault has that condition.
    """
    one = faults(verbs=verbs, numbers_max=numbers_max, may_be_once=once_folder is not None)
    return st.lists(one, max_size=faults_max).map(lambda found: FaultPlan(tuple(found), once_folder))


@st.composite
def faults(
    draw: st.DrawFn, *, verbs: Collection[str] | None = None, numbers_max: int = 200, may_be_once: bool = False
) -> Fault:
    """One fault of one of these kinds, at any phase that it can happen at, for anybody or somebody."""
    verb = VERBS[draw(st.sampled_from(sorted(VERBS if verbs is None else verbs)))]
    phase = draw(st.sampled_from(verb.phases))
    is_numbered = phase in NUMBERED and (phase == "exchange" or draw(st.booleans()))
    first = draw(st.integers(1, numbers_max)) if is_numbered else 1
    last = {"last": draw(st.integers(first, numbers_max))} if is_numbered and draw(st.booleans()) else {}
    return Fault(
        verb=verb.name,
        phase=phase,
        values=draw(_values(verb)),
        first=first,
        **last,
        env_id=draw(st.none() | st.integers(0, 3)),
        incarnation=draw(st.none() | st.integers(0, 3)),
        once=may_be_once and draw(st.booleans()),
        before=verb.name in ("crash", "hang") and phase in NUMBERED and draw(st.booleans()),
    )


@st.composite
def _values(draw: st.DrawFn, verb: Verb) -> tuple[Value, ...]:
    return tuple(draw(_VALUES[name]) for name in verb.names)


_VALUES: dict[str, SearchStrategy[Value]] = {
    "how": st.integers(0, 255) | st.sampled_from(["SEGV", "KILL", "ABRT", "TERM"]),
    "ms": st.floats(0, 1000),
    "grow": st.floats(0, 100),
    "sigma": st.floats(0, 3),
    "bytes": st.integers(1, 1000),
    "text": _WORDS,
    "agent": st.integers(-1, 20),
    "index": st.integers(0, 20),
    "sensor": st.integers(0, 3),
    "field": st.sampled_from(["observation", "reward"]),
    "name": _WORDS,
    "count": st.integers(1, 200),
    "branch": st.integers(0, 3),
    "mib": st.floats(0.001, 1),
    "s": st.floats(0.1, 60),
}
