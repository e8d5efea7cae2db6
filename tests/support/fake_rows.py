"""Hypothesis strategies for the rows of a fake player."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fakeunity.rows import BehaviorSpec, ObservationSpec, Rows

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)

VECTORS = st.builds(ObservationSpec, NAMES, st.integers(1, 300), is_goal=st.booleans())
SIDES = st.integers(1, 12)
BUFFERS = st.builds(lambda name, rows, width: ObservationSpec(name, rows * width, rows), NAMES, SIDES, SIDES)
SENSORS = VECTORS | BUFFERS


@st.composite
def behavior_specs(draw: st.DrawFn) -> BehaviorSpec:
    """Any behavior with one to four sensors of numbers and up to three branches."""
    sensors = draw(st.lists(SENSORS, min_size=1, max_size=4))
    branches = draw(st.lists(st.integers(1, 210), max_size=3))
    in_order = tuple(sorted(sensors, key=lambda sensor: sensor.name))
    return BehaviorSpec(draw(NAMES), in_order, draw(st.integers(0, 4)), tuple(branches))


@st.composite
def specs_and_rows(draw: st.DrawFn) -> tuple[BehaviorSpec, Rows]:
    """A behavior and up to 20 rows of it in any order; rewards include NaN and infinities, ids all of 0..2^31-1."""
    spec = draw(behavior_specs())
    count = draw(st.integers(0, 20))
    # +0.0 and -0.0 are one reward to every world, and no world makes the second.
    floats = st.floats(width=32).map(lambda value: value + 0.0)
    ids = draw(st.lists(st.integers(0, 2**31 - 1) | st.integers(0, 200), min_size=count, max_size=count))
    done, interrupted = (draw(arrays.arrays(np.bool_, count)) for _ in range(2))
    mask = draw(st.none() | arrays.arrays(np.bool_, (count, sum(spec.branches)))) if spec.branches else None
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    groups = draw(st.none() | arrays.arrays(np.int64, count, elements=st.integers(0, 2**31 - 1)))
    given = draw(arrays.arrays(np.float32, count, elements=floats | st.just(0.0)))
    return spec, Rows(
        ids=np.array(ids, np.int64),
        rewards=np.array(draw(st.lists(floats | st.just(0.0), min_size=count, max_size=count)), np.float32),
        done=done,
        interrupted=interrupted,
        observations=tuple(rng.normal(size=(count, sensor.size)).astype(np.float32) for sensor in spec.observations),
        mask=mask,
        group_ids=groups,
        group_rewards=None if groups is None else given,
    )
