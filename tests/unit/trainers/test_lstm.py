"""The memory's gradient, written out, is the one that TensorFlow finds through the plain definition."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from trainers.ppo.layers import dense
from trainers.ppo.lstm import Recurrence, lstm, lstm_step

Tensor = Any  # TensorFlow ships no usable types.
CELLS, FEATURES = 3, 2


def plain(weights: dict[str, Tensor], inputs: Tensor, recurrence: Recurrence) -> Tensor:
    """The same, row by row."""
    given_out = []
    for row in range(inputs.shape[0]):
        if float(recurrence.starts[row]) > 0.0:
            hidden, cell = tf.split(recurrence.memories[row : row + 1], 2, axis=1)
        elif row % recurrence.steps == 0:
            hidden, cell = tf.zeros([1, CELLS]), tf.zeros([1, CELLS])
        gates = dense("m", weights, inputs[row : row + 1]) + tf.matmul(hidden, weights["m.recurrent.kernel"])
        hidden, cell = lstm_step(gates, cell)
        given_out.append(hidden)
    return tf.concat(given_out, axis=0)


def weights_of(rng: np.random.Generator) -> dict[str, Tensor]:
    sizes = {"m.kernel": (FEATURES, 4 * CELLS), "m.bias": (4 * CELLS,), "m.recurrent.kernel": (CELLS, 4 * CELLS)}
    return {name: tf.constant(rng.normal(size=size), tf.float32) for name, size in sizes.items()}


@settings(max_examples=15)
@given(
    size=st.tuples(st.integers(1, 3), st.integers(1, 6)),
    used=st.integers(1, 6),
    seed=st.integers(0, 99),
    data=st.data(),
)
@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_what_is_given_out_and_every_gradient_are_those_of_the_plain_definition(
    size: tuple[int, int], used: int, seed: int, data: st.DataObject, mode: str
) -> None:
    rng = np.random.default_rng(seed)
    lanes, steps = size
    rows, used = lanes * steps, min(used, steps)
    starts = np.array(data.draw(st.lists(st.booleans(), min_size=rows, max_size=rows)), np.float32)
    counts = np.tile(np.arange(steps) < used, lanes).astype(np.float32)[:, None]
    weights, upstream = weights_of(rng), tf.constant(rng.normal(size=(rows, CELLS)) * counts, tf.float32)
    inputs = tf.constant(rng.normal(size=(rows, FEATURES)), tf.float32)
    memories = tf.constant(rng.normal(size=(rows, 2 * CELLS)), tf.float32)

    def both(layer: Any) -> tuple[Tensor, dict[str, Tensor]]:
        recurrence = Recurrence(memories, tf.constant(starts), steps, tf.constant(used))
        watched = {**weights, "inputs": inputs}
        with tf.GradientTape() as tape:
            tape.watch(watched)
            found = layer(watched, watched["inputs"], recurrence) * counts
        return found, tape.gradient(found, watched, output_gradients=upstream)

    def own() -> tuple[Tensor, dict[str, Tensor]]:
        return both(lambda *inputs: lstm("m", *inputs))

    found, gradients = tf.function(own, jit_compile=True, autograph=False)() if mode == "compiled" else own()
    expected, expected_gradients = both(plain)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    for name, gradient in expected_gradients.items():
        np.testing.assert_allclose(gradients[name], gradient, rtol=1e-4, atol=1e-5, err_msg=name)
