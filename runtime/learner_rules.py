"""Which settings of a behavior are allowed: the same rules, in the same words, for files and for programs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from numbers import Integral
from numbers import Real as RealNumber
from typing import Final

from runtime.learner import BehaviorSettings, CuriositySettings, NetworkSettings, PPOHyperparameters

INTEGER_MAX: Final = 2**53  # the largest number up to which every JSON reader tells two neighbours apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """Whole numbers of a range. also: one more that has a meaning of its own."""

    at_least: int
    at_most: int = INTEGER_MAX
    multiple_of: int = 1
    also: int | None = None

    @property
    def allowed(self) -> str:
        """What a message says is allowed."""
        noun = "an integer" if self.multiple_of == 1 else f"a multiple of {self.multiple_of}"
        bounds = f"from {self.at_least} to {self.at_most}"
        if self.at_most == INTEGER_MAX:
            bounds = f"of at least {self.at_least}"
        return f"{noun} {bounds}" + ("" if self.also is None else f", or {self.also}")

    def admits(self, value: object) -> bool:
        """Whether `value` is one of them."""
        if isinstance(value, bool) or not isinstance(value, Integral):
            return False
        whole = int(value)
        return (self.at_least <= whole <= self.at_most and whole % self.multiple_of == 0) or whole == self.also


@dataclass(frozen=True, slots=True, kw_only=True)
class Real:
    """Finite numbers of a range."""

    above: float | None = None
    at_least: float | None = None
    at_most: float | None = None

    @property
    def allowed(self) -> str:
        """What a message says is allowed."""
        limits = (("above", self.above), ("of at least", self.at_least), ("of at most", self.at_most))
        told = " and ".join(f"{word} {bound:g}" for word, bound in limits if bound is not None)
        return f"a finite number {told}".strip()

    def admits(self, value: object) -> bool:
        """Whether `value` is one of them."""
        if isinstance(value, bool) or not isinstance(value, RealNumber) or not math.isfinite(value):
            return False
        number = float(value)
        return (
            (self.above is None or number > self.above)
            and (self.at_least is None or number >= self.at_least)
            and (self.at_most is None or number <= self.at_most)
        )


@dataclass(frozen=True, slots=True)
class BlockRules:
    """The rules of one block by key."""

    whole: Mapping[str, Whole] = field(default_factory=dict)
    real: Mapping[str, Real] = field(default_factory=dict)

    def faults(self, block: object, path: str) -> Iterator[str]:
        """A sentence for each value of `block` that breaks one. None is no value. path: begins each key."""
        rules: dict[str, Whole | Real] = {**self.whole, **self.real}
        for key, rule in rules.items():
            value = getattr(block, key)
            if value is not None and not rule.admits(value):
                yield f"{path}{key}: {value!r} is not allowed; allowed: {rule.allowed}"


@dataclass(frozen=True, slots=True)
class Misfit:
    """Two values that do not go together."""

    problem: str
    allowed: str


POSITIVE: Final = Whole(at_least=1)
NOT_NEGATIVE: Final = Whole(at_least=0)
WIDTH: Final = Whole(at_least=1, at_most=65_536)
BEHAVIOR: Final = BlockRules(
    whole=dict.fromkeys(
        ("keep_checkpoints", "checkpoint_interval", "max_steps", "time_horizon", "summary_freq"), POSITIVE
    )
)
HYPERPARAMETERS: Final = BlockRules(
    whole=dict.fromkeys(("batch_size", "buffer_size", "num_epoch"), POSITIVE),
    real={
        "learning_rate": Real(above=0),
        "beta": Real(at_least=0),
        "epsilon": Real(above=0),
        "lambd": Real(at_least=0, at_most=1),
    },
)
NETWORK: Final = BlockRules(whole={"hidden_units": WIDTH, "num_layers": Whole(at_least=1, at_most=64)})
MEMORY: Final = BlockRules(
    whole={"memory_size": Whole(at_least=2, at_most=65_536, multiple_of=2), "sequence_length": POSITIVE}
)
SIGNAL: Final = BlockRules(real={"gamma": Real(at_least=0, at_most=1), "strength": Real()})
# A bonus that is taken away for what is new is no curiosity; of `extrinsic`, a cost may be a reward turned round.
CURIOSITY: Final = BlockRules(real={"strength": Real(at_least=0), "learning_rate": Real(above=0)})
CLONING: Final = BlockRules(
    whole={
        "steps": NOT_NEGATIVE,
        "samples_per_update": NOT_NEGATIVE,
        **dict.fromkeys(("batch_size", "num_epoch", "batches_per_epoch"), POSITIVE),
    },
    real={"strength": Real(at_least=0)},
)


def batch_misfit(hyper: PPOHyperparameters) -> Misfit | None:
    """Why no batch fills; None where one does."""
    if hyper.buffer_size >= hyper.batch_size:
        return None
    return Misfit(
        f"buffer_size {hyper.buffer_size} is smaller than batch_size {hyper.batch_size}: no batch fills",
        "a buffer_size of at least batch_size",
    )


def sequence_misfit(settings: BehaviorSettings) -> Misfit | None:
    """Why no batch holds a sequence; None where one does, or nothing is remembered."""
    memory, batch_size = settings.network_settings.memory, settings.hyperparameters.batch_size
    if memory is None or memory.sequence_length <= batch_size:
        return None
    return Misfit(
        f"sequence_length {memory.sequence_length} is larger than batch_size {batch_size}: no batch holds a sequence",
        "a sequence_length of at most batch_size",
    )


def settings_faults(settings: BehaviorSettings) -> tuple[str, ...]:
    """What is wrong with the settings of a `ppo` behavior that were made in code: a sentence each, as of a file."""
    found = [*BEHAVIOR.faults(settings, ""), *HYPERPARAMETERS.faults(settings.hyperparameters, "hyperparameters.")]
    found += _network_faults(settings.network_settings, "network_settings.")
    for name, signal in settings.reward_signals.items():
        path = f"reward_signals.{name}."
        found += SIGNAL.faults(signal, path)
        if isinstance(signal, CuriositySettings):
            found += [
                *CURIOSITY.faults(signal, path),
                *_network_faults(signal.network_settings, f"{path}network_settings."),
            ]
    if settings.behavioral_cloning is not None:
        found += CLONING.faults(settings.behavioral_cloning, "behavioral_cloning.")
    if not found:  # Of values that break a rule alone, nothing can be said together.
        pairs = (
            ("hyperparameters.buffer_size", batch_misfit(settings.hyperparameters)),
            ("network_settings.memory.sequence_length", sequence_misfit(settings)),
        )
        found = [f"{path}: {misfit.problem}; allowed: {misfit.allowed}" for path, misfit in pairs if misfit is not None]
    return tuple(found)


def _network_faults(network: NetworkSettings, path: str) -> Iterator[str]:
    yield from NETWORK.faults(network, path)
    if network.memory is not None:
        yield from MEMORY.faults(network.memory, f"{path}memory.")
