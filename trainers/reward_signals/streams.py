"""All reward signals of a behavior inside an update: rewards by stream, and what their own networks learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from trainers.networks import NetworkShape
from trainers.reward_signals.signal import SignalModel, Transitions

Tensor = Any  # TensorFlow ships no usable types.
Codes = Mapping[str, Tensor]
"""By signal: (n, w), what its encoder makes of n observations."""

NEXT_INPUTS = ("next_rows", "follows")


class RewardStreams:
    """The signals of a network shape, in the order of their streams."""

    def __init__(self, shape: NetworkShape) -> None:
        self._signals = shape.signals
        self._models: dict[str, SignalModel] = {}
        for signal in shape.signals:
            model = signal.model(shape)
            if model is not None:
                self._models[signal.name] = model
        self.loss_tags = tuple(tag for model in self._models.values() for tag in model.loss_tags)
        self.sees_next = shape.sees_next

    def codes(self, weights: Mapping[str, Tensor], vectors: Tensor, sights: Sequence[Tensor]) -> Codes:
        """The codes of n observations."""
        return {name: model.encode(weights, vectors, sights) for name, model in self._models.items()}

    def rewards(self, weights: Mapping[str, Tensor], codes: Codes, inputs: Mapping[str, Tensor]) -> Tensor:
        """(n, streams): the rewards of all rows, times their strengths. codes: of the same rows.

        inputs: `rewards`, `strengths` and, with models, `continuous`, `discrete`, `next_rows`, `follows`, and
        `is_trained`, which is 0 as long as the models know nothing.
        """
        if not self._models:
            return inputs["rewards"][:, None] * inputs["strengths"]
        columns = []
        for signal in self._signals:
            model = self._models.get(signal.name)
            if model is None:
                columns.append(inputs["rewards"])
                continue
            code = codes[signal.name]
            transitions = Transitions(
                code=code,
                next_code=tf.gather(code, inputs["next_rows"]),
                continuous=inputs["continuous"],
                discrete=inputs["discrete"],
                weight=inputs["follows"],
            )
            columns.append(model.rewards(weights, transitions) * inputs["is_trained"])
        return tf.stack(columns, axis=1) * inputs["strengths"]

    def losses(
        self,
        weights: Mapping[str, Tensor],
        rows: Mapping[str, Tensor],
        sights: Sequence[Tensor],
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """What is minimised of one minibatch of b rows, and its parts by `loss_tags`; of a run with models.

        rows: `vectors` and `next_vectors` (b, V), `continuous`, `discrete`, `weight`, `follows`. sights: (2b, ...), of
        the rows and then of what follows.
        """
        vectors, count = tf.concat([rows["vectors"], rows["next_vectors"]], axis=0), rows["vectors"].shape[0]
        total, parts = tf.constant(0.0), list[Tensor]()
        for model in self._models.values():
            code = model.encode(weights, vectors, sights)
            transitions = Transitions(
                code=code[:count],
                next_code=code[count:],
                continuous=rows["continuous"],
                discrete=rows["discrete"],
                weight=rows["follows"] * rows["weight"],
            )
            loss, found = model.losses(weights, transitions)
            total, parts = total + loss, [*parts, *found]
        return total, tuple(parts)

    def statistics(self, found: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """By tag: mean value of each stream, and mean reward of an agent step of those that have a model.

        found: `value_estimates` and `mean_rewards`, (streams,) each.
        """
        tags = {signal.value_tag: found["value_estimates"][place] for place, signal in enumerate(self._signals)}
        for place, signal in enumerate(self._signals):
            if signal.name in self._models:
                tags[signal.reward_tag] = found["mean_rewards"][place]
        return tags
