"""Generalised advantage estimation against its definition and against numbers worked by hand."""

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from trainers.ppo.advantages import advantages

ROWS = 12


@tf.function(jit_compile=True, autograph=False)
def compiled(inputs: dict[str, object]) -> object:
    return advantages(**inputs)


def run(
    *,
    rewards: npt.ArrayLike,
    values: npt.ArrayLike,
    next_rows: npt.ArrayLike,
    continues: npt.ArrayLike,
    is_linked: npt.ArrayLike,
    gamma: float,
    lambda_: float,
) -> npt.NDArray[np.float32]:
    found = compiled(
        {
            "rewards": tf.constant(np.asarray(rewards, np.float32)[:, None]),
            "values": tf.constant(np.asarray(values, np.float32)[:, None]),
            "next_rows": tf.constant(np.asarray(next_rows, np.int32)),
            "continues": tf.constant(np.asarray(continues, np.float32)[:, None]),
            "is_linked": tf.constant(np.asarray(is_linked, np.float32)),
            "gammas": tf.constant([np.float32(gamma)]),
            "lambda_": tf.constant(np.float32(lambda_)),
        }
    )
    return np.asarray(found)[:, 0]


def test_three_steps_to_a_real_end_worked_by_hand() -> None:
    # deltas: 1 + 0.5*2 - 1 = 1; 2 + 0.5*3 - 2 = 1.5; 3 - 3 = 0. With gamma * lambda = 0.25:
    # A2 = 0; A1 = 1.5 + 0.25 * 0 = 1.5; A0 = 1 + 0.25 * 1.5 = 1.375.
    found = run(
        rewards=[1, 2, 3],
        values=[1, 2, 3],
        next_rows=[1, 2, 2],
        continues=[1, 1, 0],
        is_linked=[1, 1, 0],
        gamma=0.5,
        lambda_=0.5,
    )
    assert found.tolist() == [1.375, 1.5, 0.0]


def test_a_cut_is_bootstrapped_where_an_end_is_not() -> None:
    # Row 1 is followed by the bare observation in row 3, worth 8: 2 + 0.5 * 8 - 2 = 4, and 1 + 0.5*2 - 1 + 0.25*4 = 2.
    # Row 2 really ends: 3 - 3 = 0, whatever row 3 is worth.
    found = run(
        rewards=[1, 2, 3, 0],
        values=[1, 2, 3, 8],
        next_rows=[1, 3, 3, 0],
        continues=[1, 1, 0, 0],
        is_linked=[1, 0, 0, 0],
        gamma=0.5,
        lambda_=0.5,
    )
    assert found[:3].tolist() == [2.0, 4.0, 0.0]


floats = st.floats(-3, 3, width=32)


@given(
    rewards=st.lists(floats, min_size=ROWS, max_size=ROWS),
    values=st.lists(floats, min_size=ROWS, max_size=ROWS),
    ends=st.lists(st.sampled_from(["linked", "cut", "terminal"]), min_size=ROWS, max_size=ROWS),
    gamma=st.floats(0, 1),
    lambda_=st.floats(0, 1),
)
def test_it_equals_the_sum_of_discounted_deltas(
    rewards: list[float],
    values: list[float],
    ends: list[str],
    gamma: float,
    lambda_: float,
) -> None:
    ends[-1] = "terminal"
    continues = [end != "terminal" for end in ends]
    deltas = [rewards[t] + gamma * (values[t + 1] if continues[t] else 0.0) - values[t] for t in range(ROWS)]
    expected = []
    for t in range(ROWS):
        last = next(u for u in range(t, ROWS) if ends[u] != "linked")
        expected.append(sum((gamma * lambda_) ** (u - t) * deltas[u] for u in range(t, last + 1)))
    found = run(
        rewards=rewards,
        values=values,
        next_rows=np.minimum(np.arange(1, ROWS + 1), ROWS - 1),
        continues=continues,
        is_linked=[end == "linked" for end in ends],
        gamma=gamma,
        lambda_=lambda_,
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
