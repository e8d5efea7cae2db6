"""Environment parameters: numbers hold, samplers are drawn once per episode from the episode's own source."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakeunity.parameters import Parameters
from fakeunity.scenes.chance import Chance, Keys
from fakeunity.side_channels import Sampler

MANY = 4000


def keys(count: int = MANY) -> Keys:
    return Chance(1, 2).episodes(np.arange(count), np.zeros(count, np.int64))


def drawn(sampler: Sampler, count: int = MANY) -> list[float]:
    parameters = Parameters({"p": 0.0})
    parameters.hear("p", sampler)
    return list(parameters.episodes("p", keys(count)).tolist())


def test_a_default_holds_until_something_is_sent_and_then_the_latest() -> None:
    parameters = Parameters({"p": 2.5})
    assert parameters.episodes("p", keys(3)).tolist() == [2.5] * 3
    parameters.hear("p", 1.0)
    parameters.hear("other", 9.0)
    parameters.hear("p", 4.0)
    assert parameters.episodes("p", keys(3)).tolist() == [4.0] * 3
    assert parameters.sent() == {"p": 4.0, "other": 9.0}
    assert dict(parameters.defaults) == {"p": 2.5}


def test_a_parameter_without_default_is_none_of_the_scenes() -> None:
    with pytest.raises(KeyError):
        Parameters().episodes("p", keys(1))


def test_uniform_draws_fill_their_range() -> None:
    values = drawn(Sampler("uniform", 5, (0.5, 2.0)))
    assert 0.5 <= min(values) < 0.51
    assert 1.99 < max(values) < 2.0
    assert np.mean(values) == pytest.approx(1.25, abs=0.03)


def test_gaussian_draws_have_their_mean_and_deviation() -> None:
    values = drawn(Sampler("gaussian", 5, (3.0, 0.5)))
    assert np.mean(values) == pytest.approx(3.0, abs=0.03)
    assert np.std(values) == pytest.approx(0.5, abs=0.03)


def test_draws_from_several_ranges_take_each_by_its_length() -> None:
    values = np.array(drawn(Sampler("multirangeuniform", 5, (0.0, 1.0, 10.0, 13.0))))
    low = values < 1.0
    assert ((values[~low] >= 10.0) & (values[~low] < 13.0)).all()
    assert low.mean() == pytest.approx(0.25, abs=0.03)


@given(st.lists(st.floats(-1e6, 1e6), max_size=7), st.sampled_from(["uniform", "multirangeuniform"]))
def test_any_ranges_give_a_number(ends: list[float], kind: str) -> None:
    assert np.isfinite(drawn(Sampler(kind, 1, tuple(ends)), 5)).all()


def test_the_sampler_the_name_and_the_episode_decide_and_nothing_else() -> None:
    parameters = Parameters({"p": 0.0, "q": 0.0})
    for name in ("p", "q"):
        parameters.hear(name, Sampler("uniform", 5, (0.0, 1.0)))
    p, q = parameters.episodes("p", keys(50)), parameters.episodes("q", keys(50))
    assert (p != q).all()
    assert (parameters.episodes("p", keys(50)[7:9]) == p[7:9]).all()
    parameters.hear("p", Sampler("uniform", 6, (0.0, 1.0)))
    assert (parameters.episodes("p", keys(50)) != p).all()
