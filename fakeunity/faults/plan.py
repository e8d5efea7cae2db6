"""What a player is to do wrong, and when: `VERB[:PARAMETER...]@PHASE[=N[-M]][+CONDITION...]`, several joined by `;`.

| phase | when |
|---|---|
| connect | before the player dials |
| handshake | its first call |
| reset, reset=N | the answer to a RESET, to the N-th one |
| step, step=N | the answer to a STEP, to the N-th one of this player |
| exchange=N | the call after the trainer's N-th reply, as the journal counts: 1 is the handshake's, 2 a reset |
| close | when the trainer has asked to stop |

`N-M` is a range, `N-` one without end, no number is each time. Parameters are `value` or `name=value`, in order.
Conditions: `env=N` and `incarnation=N` (the trainer tells both; a player that was not told takes 0), `once` (only the
first player that comes there, known by a file in the folder of `fault_once`), and `before`: a crash or a silence comes
before the world has moved, not between the move and the answer. Examples: `crash:9@step=17+env=2+once`,
`crash:SEGV@handshake`, `nan:agent=3:index=2@step=40`, `delay:ms=5:sigma=1@step`, `empty@step=10-30`. An empty text is
the plan of a player that does nothing wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fakeunity.errors import SpecError
from fakeunity.faults.verbs import PHASES, VERBS, Value, Verb
from fakeunity.nearest import unknown_word

NUMBERED = ("reset", "step", "exchange")
CONDITIONS = ("env", "incarnation", "once", "before")
_NUMBER_MAX = 10**9
_SEPARATORS = ";@+:&,"


@dataclass(frozen=True, slots=True)
class Who:
    """The player that asks whether a fault is meant for it. incarnation: 0 when nobody told it."""

    env_id: int = 0
    incarnation: int = 0


@dataclass(frozen=True, slots=True)
class Moment:
    """Where a player is: the phase, how often it was there (from 1), and the exchange as the journal counts it."""

    phase: str
    number: int
    exchange: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault. values: of the verb's parameters, in order. first, last: the numbers at which it happens.

    Raises SpecError when it cannot happen like this.
    """

    verb: str
    phase: str
    values: tuple[Value, ...] = ()
    first: int = 1
    last: int = _NUMBER_MAX
    env_id: int | None = None
    incarnation: int | None = None
    once: bool = False
    before: bool = False

    def __post_init__(self) -> None:
        if self.verb not in VERBS:
            raise SpecError(unknown_word("fault", self.verb, VERBS))
        kind = self.kind
        if self.phase not in PHASES:
            raise SpecError(unknown_word("phase", self.phase, PHASES))
        if self.phase not in kind.phases:
            raise SpecError(f"fault {self.verb!r} cannot happen at {self.phase!r}, only at {', '.join(kind.phases)}")
        if self.before and (self.verb not in ("crash", "hang") or self.phase not in NUMBERED):
            raise SpecError("before is for crash and hang at reset, step or exchange")
        if not 1 <= self.first <= self.last:
            raise SpecError(f"{self.phase}={self.first}-{self.last}: expected numbers from 1 on, the smaller one first")
        object.__setattr__(self, "values", self._checked_values(kind))

    def _checked_values(self, kind: Verb) -> tuple[Value, ...]:
        texts = [str(value) for value in self.values]
        if any(separator in text for text in texts for separator in _SEPARATORS):
            raise SpecError(f"fault {self.verb!r}: none of {_SEPARATORS} may be in a parameter, as in {texts}")
        named = [f"{name}={text}" for name, text in zip(kind.names, texts, strict=False)]
        return kind.read(named + texts[len(named) :])

    @property
    def kind(self) -> Verb:
        """What is known of this fault's verb."""
        return VERBS[self.verb]

    def value(self, name: str) -> Value:
        """The value of a parameter."""
        return self.values[self.kind.names.index(name)]

    def whole(self, name: str) -> int:
        """The value of a parameter that is a whole number."""
        return int(self.value(name))

    def is_for(self, who: Who) -> bool:
        """Whether its conditions allow it for this player, but for `once`."""
        return self.env_id in (None, who.env_id) and self.incarnation in (None, who.incarnation)

    def is_due(self, moment: Moment) -> bool:
        """Whether it happens at this moment."""
        if self.phase == "exchange":
            return self.first <= moment.exchange <= self.last
        return self.phase == moment.phase and self.first <= moment.number <= self.last

    def __str__(self) -> str:
        text = ":".join([self.verb, *(f"{n}={_plain(v)}" for n, v in zip(self.kind.names, self.values, strict=True))])
        text += f"@{self.phase}"
        if self.phase == "exchange" or (self.phase in NUMBERED and (self.first, self.last) != (1, _NUMBER_MAX)):
            text += f"={self.first}-{'' if self.last == _NUMBER_MAX else self.last}"
        text += "" if self.env_id is None else f"+env={self.env_id}"
        text += "" if self.incarnation is None else f"+incarnation={self.incarnation}"
        return text + "+once" * self.once + "+before" * self.before


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """All faults of a player. once_folder: where `once` is remembered between players."""

    faults: tuple[Fault, ...] = ()
    once_folder: Path | None = None

    def __str__(self) -> str:
        return ";".join(str(fault) for fault in self.faults)

    def require(self, link: str) -> None:
        """Nothing, when a player of this link can do all that; else raises SpecError."""
        if self.once_folder is None and any(fault.once for fault in self.faults):
            raise SpecError("a fault with +once needs a folder to remember it in: fault_once=DIR (--fault-once DIR)")
        stuck = next((fault for fault in self.faults if fault.kind.needs_process), None)
        if link == "memory" and stuck is not None:
            raise SpecError(f"fault {stuck.verb!r} needs a process of the player's own: link=grpc")

    def for_player(self, who: Who) -> tuple[Fault, ...]:
        """The faults meant for this player."""
        return tuple(fault for fault in self.faults if fault.is_for(who))


def parse_plan(text: str) -> FaultPlan:
    """The plan that `text` describes, no fault where it is empty.

    Raises SpecError saying what is wrong and what is nearest.
    """
    if not text.strip():
        return FaultPlan()
    return FaultPlan(tuple(parse_fault(part) for part in text.split(";")))


def joined(plans: Iterable[FaultPlan]) -> FaultPlan:
    """The faults of all these plans, in order."""
    return FaultPlan(tuple(fault for plan in plans for fault in plan.faults))


def parse_fault(text: str) -> Fault:
    """The fault that `text` describes. Raises SpecError."""
    text = text.strip()
    head, at, rest = text.partition("@")
    if not at:
        raise SpecError(f"fault {text!r} has no phase; write VERB@PHASE, as in crash@step=17")
    verb, *words = head.split(":")
    if verb not in VERBS:
        raise SpecError(unknown_word("fault", verb, VERBS))
    when, *conditions = rest.split("+")
    phase, first, last = _read_when(VERBS[verb], when)
    told = _read_conditions(text, conditions)
    return Fault(
        verb=verb,
        phase=phase,
        values=VERBS[verb].read(words),
        first=first,
        last=last,
        env_id=told.get("env"),
        incarnation=told.get("incarnation"),
        once="once" in told,
        before="before" in told,
    )


def _read_when(verb: Verb, text: str) -> tuple[str, int, int]:
    phase, equals, numbers = text.partition("=")
    if phase not in PHASES:
        raise SpecError(unknown_word("phase", phase, PHASES))
    if not equals:
        if phase == "exchange":
            raise SpecError(f"phase {phase!r} needs a number, as in exchange=3")
        return phase, 1, _NUMBER_MAX
    if phase not in NUMBERED:
        raise SpecError(f"phase {phase!r} comes once in a player's life and takes no number, so not {numbers!r}")
    low, dash, high = numbers.partition("-")
    first = _count(text, low)
    if not dash:
        return phase, first, _NUMBER_MAX if verb.lasts else first
    return phase, first, _count(text, high) if high else _NUMBER_MAX


def _read_conditions(fault: str, texts: list[str]) -> dict[str, int]:
    told: dict[str, int] = {}
    for text in texts:
        name, equals, number = text.partition("=")
        if name not in CONDITIONS:
            raise SpecError(unknown_word("condition", name, CONDITIONS))
        if name in told:
            raise SpecError(f"fault {fault!r}: condition {name!r} is given twice; give it once")
        if bool(equals) != (name in ("env", "incarnation")):
            raise SpecError(f"condition {text!r}: expected env=N, incarnation=N, once or before")
        told[name] = _count(text, number, low=0) if equals else 1
    return told


def _count(place: str, text: str, low: int = 1) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 9 and int(text) >= low:
        return int(text)
    raise SpecError(f"{place!r}: {text!r} is no number; expected N, N-M or N- with whole numbers from {low} on")


def _plain(value: Value) -> str:
    return repr(value) if isinstance(value, float) else str(value)
