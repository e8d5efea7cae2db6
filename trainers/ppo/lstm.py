"""The memory of a policy: an LSTM (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000).

Its gradient is written out here (Werbos 1990, backpropagation through time): only what one step hands to the next is
computed step by step, all else, that of the kernel too, is one product for all of them. The gates stand side by side:
input, forget, candidate, output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from trainers.ppo.layers import dense

Tensor = Any  # TensorFlow ships no usable types.


class Recurrence(NamedTuple):
    """What a network with memory needs beside its inputs: n rows are lanes of `steps` rows one after the other.

    memories: float32 (n, w), what the agent remembers where a sequence starts. starts: float32 (n,), 1 there; elsewhere
    the memory is what the row before left. used: int32, how many rows of each lane are looked at; the others are given
    zeros.
    """

    memories: Tensor
    starts: Tensor
    steps: int
    used: Tensor


class Sequences(NamedTuple):
    """The same, step by step: given (steps, lanes, 4 * cells), what a step's input adds to its gates.

    hidden, cell: (steps, lanes, cells), what is remembered where is_start, bool (steps, lanes, 1), says so.
    """

    given: Tensor
    hidden: Tensor
    cell: Tensor
    is_start: Tensor
    used: Tensor


def lstm(name: str, weights: Mapping[str, Tensor], inputs: Tensor, recurrence: Recurrence) -> Tensor:
    """(n, cells) of inputs (n, F), lane by lane; a lane starts with a sequence, or its first rows count for nothing."""
    rows, steps = inputs.shape[0], recurrence.steps
    kernel = weights[f"{name}.recurrent.kernel"]
    cells, lanes = kernel.shape[0], rows // steps

    def by_step(column: Tensor) -> Tensor:
        return tf.transpose(tf.reshape(column, [lanes, steps, column.shape[1]]), [1, 0, 2])

    hidden, cell = tf.split(by_step(recurrence.memories), 2, axis=2)
    is_start = by_step(recurrence.starts[:, None]) > 0.0
    sequences = Sequences(by_step(dense(name, weights, inputs)), hidden, cell, is_start, recurrence.used)
    return tf.reshape(tf.transpose(_given_out(sequences, kernel), [1, 0, 2]), [rows, cells])


def lstm_step(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """What is given out and kept, (n, cells) twice, from gates (n, 4 * cells) before their non-linearities."""
    let_in, keep, candidate, give = tf.split(gates, 4, axis=1)
    cell = tf.sigmoid(keep) * cell + tf.sigmoid(let_in) * tf.tanh(candidate)
    return tf.sigmoid(give) * tf.tanh(cell), cell


def _given_out(sequences: Sequences, kernel: Tensor) -> Tensor:
    """(steps, lanes, cells). Its gradient knows of two inputs: what is given to the gates, and the kernel."""

    @tf.custom_gradient
    def run(given: Tensor, kernel: Tensor) -> tuple[Tensor, Callable[[Tensor], tuple[Tensor, Tensor]]]:
        own = sequences._replace(given=given)
        gates, hidden, cell = _forwards(own, kernel)

        def gradient(upstream: Tensor) -> tuple[Tensor, Tensor]:
            return _backwards(own, kernel, gates=gates, hidden=hidden, cell=cell, upstream=upstream)

        return hidden, gradient

    return run(sequences.given, kernel)


def _forwards(sequences: Sequences, kernel: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Gates before their non-linearities, what is given out and what is kept, of every step."""
    steps, lanes, width = sequences.given.shape
    cells = kernel.shape[0]

    def step(number: Tensor, hidden: Tensor, cell: Tensor, found: tuple[Any, ...]) -> tuple[Any, ...]:
        is_start = sequences.is_start[number]
        hidden = tf.where(is_start, sequences.hidden[number], hidden)
        cell = tf.where(is_start, sequences.cell[number], cell)
        gates = sequences.given[number] + tf.matmul(hidden, kernel)
        hidden, cell = lstm_step(gates, cell)
        now = (gates, hidden, cell)
        return number + 1, hidden, cell, tuple(of.write(number, one) for of, one in zip(found, now, strict=True))

    nothing = tf.zeros([lanes, cells])
    *_, found = tf.while_loop(
        lambda number, *_: number < sequences.used,
        step,
        (tf.constant(0), nothing, nothing, tuple(_column(steps, lanes, size) for size in (width, cells, cells))),
        maximum_iterations=steps,
    )
    gates, hidden, cell = (each.stack() for each in found)
    return gates, hidden, cell


def _backwards(
    sequences: Sequences, kernel: Tensor, *, gates: Tensor, hidden: Tensor, cell: Tensor, upstream: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of what was given to the gates and of the kernel; upstream: (steps, lanes, cells)."""
    steps, lanes, width = gates.shape
    cells = kernel.shape[0]
    nothing = tf.zeros([lanes, cells])
    hidden_before = tf.where(sequences.is_start, sequences.hidden, tf.concat([nothing[None], hidden[:-1]], axis=0))
    cell_before = tf.where(sequences.is_start, sequences.cell, tf.concat([nothing[None], cell[:-1]], axis=0))
    let_in, keep, candidate, give = tf.split(gates, 4, axis=2)
    let_in, keep, give = tf.sigmoid(let_in), tf.sigmoid(keep), tf.sigmoid(give)
    candidate, kept = tf.tanh(candidate), tf.tanh(cell)
    of_cell = [candidate * let_in * (1 - let_in), cell_before * keep * (1 - keep), let_in * (1 - tf.square(candidate))]
    slopes = tf.concat([*of_cell, kept * give * (1 - give)], axis=2)
    cell_by_hidden = give * (1 - tf.square(kept))
    is_linked = tf.where(sequences.is_start, 0.0, 1.0)
    linked_keep, kernel_transposed = keep * is_linked, tf.transpose(kernel)

    def step(number: Tensor, hidden: Tensor, cell: Tensor, found: Any) -> tuple[Any, ...]:
        hidden += upstream[number]
        cell += hidden * cell_by_hidden[number]
        slope = tf.concat([cell, cell, cell, hidden], axis=1) * slopes[number]
        before = tf.matmul(slope, kernel_transposed) * is_linked[number]
        return number - 1, before, cell * linked_keep[number], found.write(number, slope)

    *_, found = tf.while_loop(
        lambda number, *_: number >= 0,
        step,
        (sequences.used - 1, nothing, nothing, _column(steps, lanes, width)),
        maximum_iterations=steps,
    )
    slope = found.stack()
    flat = tf.reshape(hidden_before, [steps * lanes, cells]), tf.reshape(slope, [steps * lanes, width])
    return slope, tf.matmul(*flat, transpose_a=True)


def _column(steps: int, lanes: int, width: int) -> tf.TensorArray:
    return tf.TensorArray(tf.float32, size=steps, element_shape=[lanes, width])
