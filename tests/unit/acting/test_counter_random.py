"""Draws are Philox, differ for different draws, and depend on nothing but their own counter."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.acting.counter_random import (
    BLOCKS_MAX,
    ENV_IDS_MAX,
    STEPS_MAX,
    Key,
    box_muller,
    normals,
    open_units,
    philox4x32,
    stream_key,
    uniforms,
)
from runtime.acting.noise import NoiseCache
from runtime.experience.brains import Ids
from tests.support.strategies_experience import INT64_MAX, INT64_MIN, agent_arrays, agent_ids

KEY = stream_key(5, incarnation=2, brain="Bot")
WORD_MAX = 0xFFFFFFFF


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((WORD_MAX,) * 4, (WORD_MAX,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_gives_the_known_answers_of_its_authors(
    counter: tuple[int, ...], key: tuple[int, int], expected: tuple[int, ...]
) -> None:
    words = philox4x32(np.array([counter, counter], np.uint64).T, Key(key))
    assert words.tolist() == [[each, each] for each in expected]


def _reference_philox(counter: tuple[int, ...], key: tuple[int, int]) -> tuple[int, ...]:
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c0, 1 << 32)
        high1, low1 = divmod(0xCD9E8D57 * c2, 1 << 32)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + 0x9E3779B9) & WORD_MAX, (k1 + 0xBB67AE85) & WORD_MAX
    return c0, c1, c2, c3


words = st.integers(0, WORD_MAX)


@given(rows=st.lists(st.tuples(words, words, words, words), min_size=1, max_size=5), key=st.tuples(words, words))
def test_philox_on_rows_equals_the_scalar_definition(
    rows: list[tuple[int, int, int, int]], key: tuple[int, int]
) -> None:
    drawn = philox4x32(np.array(rows, np.uint64).T.copy(), Key(key))
    assert [tuple(each) for each in drawn.T.tolist()] == [_reference_philox(row, key) for row in rows]


@given(
    agents=agent_arrays(sizes_max=33),
    data=st.data(),
    env_id=st.integers(0, ENV_IDS_MAX - 1),
    step=st.integers(0, STEPS_MAX - 4),
    blocks=st.integers(0, 3),
)
def test_a_draw_has_the_same_bits_whoever_else_draws(
    agents: Ids, data: st.DataObject, env_id: int, step: int, blocks: int
) -> None:
    chosen = data.draw(st.lists(st.integers(0, max(0, len(agents) - 1)), max_size=len(agents), unique=True))
    for draw in (uniforms, normals):
        whole = draw(KEY, env_id, agents, steps=range(step, step + 4), blocks=range(blocks + 2))
        part = draw(KEY, env_id, agents[chosen], steps=range(step + 1, step + 3), blocks=range(blocks, blocks + 2))
        assert part.tobytes() == whole[1:3][:, chosen][:, :, 2 * blocks :].tobytes()


@given(agents=st.lists(agent_ids(), unique=True, min_size=2, max_size=20))
def test_different_agents_get_different_draws_over_all_of_int64(agents: list[int]) -> None:
    ids = np.array([*agents, INT64_MIN, INT64_MAX, -1, -(1 << 32)], np.int64)
    ids = np.unique(ids)
    drawn = uniforms(KEY, 0, ids, steps=range(1), blocks=range(1))
    assert len(np.unique(drawn)) == drawn.size


def test_seeds_incarnations_brains_environments_agents_steps_and_numbers_all_change_the_draw() -> None:
    drawn = []
    for seed, incarnation, brain, env_id in itertools.product((0, 1), (0, 1), ("a", "b"), (0, 1, ENV_IDS_MAX - 1)):
        key = stream_key(seed, incarnation=incarnation, brain=brain)
        agents = np.array([-1, 0, 1, 1 << 32, INT64_MIN], np.int64)
        drawn.append(uniforms(key, env_id, agents, steps=range(3), blocks=range(3)).ravel())
        drawn.append(uniforms(key, env_id, agents, steps=range(STEPS_MAX - 1, STEPS_MAX), blocks=range(1)).ravel())
        last = range(BLOCKS_MAX - 1, BLOCKS_MAX)
        drawn.append(uniforms(key, env_id, agents, steps=range(1), blocks=last).ravel())
    everything = np.concatenate(drawn)
    assert len(np.unique(everything)) == everything.size


@pytest.mark.parametrize(
    ("env_id", "steps", "blocks", "complaint"),
    [
        (-1, range(1), range(1), "environment number -1 .* 0 to 65535"),
        (ENV_IDS_MAX, range(1), range(1), "environment number 65536"),
        (0, range(-1, 1), range(1), "step -1 .* 0 to 4294967295"),
        (0, range(STEPS_MAX, STEPS_MAX + 1), range(1), "step 4294967296"),
        (0, range(1), range(BLOCKS_MAX + 1), "block 65536 .* 0 to 65535"),
    ],
)
def test_counters_that_would_repeat_are_refused(env_id: int, steps: range, blocks: range, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        uniforms(KEY, env_id, np.zeros(1, np.int64), steps=steps, blocks=blocks)


def test_the_extreme_words_are_inside_the_open_interval() -> None:
    words = np.array([0, (1 << 64) - 1, 1 << 63], np.uint64)
    assert open_units(words).tolist() == [2.0**-53, 1 - 2.0**-53, 0.5 + 2.0**-53]


def test_uniforms_lie_inside_the_open_interval_and_are_uniform() -> None:
    drawn = uniforms(KEY, 1, np.arange(100), steps=range(100), blocks=range(10)).ravel()
    assert drawn.size == 200_000
    assert 0.0 < drawn.min() < drawn.max() < 1.0
    counts = np.histogram(drawn, bins=100, range=(0, 1))[0]
    # Chi-squared with 99 degrees of freedom: mean 99, standard deviation 14.
    assert ((counts - 2000) ** 2 / 2000).sum() < 99 + 6 * 14.07


def test_normals_have_the_moments_and_the_tails_of_the_normal_distribution() -> None:
    drawn = normals(KEY, 1, np.arange(100), steps=range(100), blocks=range(10))
    flat = drawn.ravel()
    error = 5 / math.sqrt(flat.size)
    assert abs(flat.mean()) < error
    assert abs((flat**2).mean() - 1) < error * math.sqrt(2)
    assert abs((flat**4).mean() - 3) < error * math.sqrt(96)
    assert abs((flat < -1.959963985).mean() - 0.025) < error * 0.16
    assert abs((drawn[..., 0::2] * drawn[..., 1::2]).mean()) < 2 * error


def test_box_muller_is_its_formula() -> None:
    pairs = np.array([[0.25, 0.125, 0.5, 0.75]])
    radius, angle = math.sqrt(-2 * math.log(0.25)), math.pi / 4
    expected = [radius * math.cos(angle), radius * math.sin(angle), 0.0, -math.sqrt(2 * math.log(2))]
    np.testing.assert_allclose(box_muller(pairs)[0], expected, atol=1e-15)


@given(
    calls=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(0, 3)), min_size=1, max_size=20),
    groups=st.lists(agent_arrays(), min_size=4, max_size=4),
    sizes=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    window_blocks=st.integers(0, 30),
    entries_max=st.integers(1, 3),
)
def test_the_cache_changes_no_bit(
    calls: list[tuple[int, int, int]], groups: list[Ids], sizes: tuple[int, int], window_blocks: int, entries_max: int
) -> None:
    cache = NoiseCache(window_blocks=window_blocks, entries_max=entries_max)
    for env_id, step, group in calls:
        agents = groups[group]
        cached = cache.draws(KEY, env_id, agents, step=step, sizes=sizes)
        fresh = NoiseCache(window_blocks=0).draws(KEY, env_id, agents, step=step, sizes=sizes)
        assert cached.normals.tobytes() == fresh.normals.tobytes()
        assert cached.uniforms.tobytes() == fresh.uniforms.tobytes()
        assert cached.normals.shape == (len(agents), sizes[0])
        assert cached.uniforms.shape == (len(agents), sizes[1])
        assert len(cache._windows) <= entries_max


@given(agents=agent_arrays(), step=st.integers(0, 9), sizes=st.tuples(st.integers(0, 4), st.integers(0, 4)))
def test_the_cache_gives_an_agents_first_blocks_as_normals_and_the_next_as_uniforms(
    agents: Ids, step: int, sizes: tuple[int, int]
) -> None:
    split = (sizes[0] + 1) // 2
    draws = NoiseCache().draws(KEY, 3, agents, step=step, sizes=sizes)
    steps = range(step, step + 1)
    normal = normals(KEY, 3, agents, steps=steps, blocks=range(split))[0, :, : sizes[0]]
    uniform = uniforms(KEY, 3, agents, steps=steps, blocks=range(split, split + 2))[0, :, : sizes[1]]
    assert draws.normals.tobytes() == normal.astype(np.float32).tobytes()
    assert draws.uniforms.tobytes() == uniform.tobytes()


def test_the_cache_draws_up_to_the_last_step_and_refuses_the_one_after() -> None:
    cache, agents = NoiseCache(), np.arange(2)
    assert cache.draws(KEY, 0, agents, step=STEPS_MAX - 1, sizes=(1, 1)).normals.shape == (2, 1)
    with pytest.raises(ValueError, match="step 4294967296"):
        cache.draws(KEY, 0, agents, step=STEPS_MAX, sizes=(1, 1))
    with pytest.raises(ValueError, match="step -1"):
        cache.draws(KEY, 0, agents, step=-1, sizes=(1, 1))
