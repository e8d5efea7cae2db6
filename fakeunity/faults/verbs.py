"""The faults there are: what each is called, its parameters, and the phases at which it can happen."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from fakeunity.errors import SpecError
from fakeunity.nearest import unknown_word

Value = int | float | str
MIB_MAX = 4096
AGENTS_MORE_MAX = 100_000
CALLS = ("handshake", "reset", "step", "exchange")
WORLDS = ("reset", "step", "exchange")
PHASES = ("connect", *CALLS, "close")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a fault: its name, how its text is read (raising ValueError), what counts without it."""

    name: str
    read: Callable[[str], Value]
    default: Value
    allowed: str


@dataclass(frozen=True, slots=True)
class Verb:
    """One kind of fault. lasts: `step=N` means from step N on. needs_process: impossible in the host's own process."""

    name: str
    phases: tuple[str, ...]
    sentence: str
    parameters: tuple[Parameter, ...] = ()
    lasts: bool = False
    needs_process: bool = False

    def read(self, words: list[str]) -> tuple[Value, ...]:
        """The values of all parameters, in order, out of `value` or `name=value` words. Raises SpecError."""
        given: dict[str, Value] = {}
        for at, word in enumerate(words):
            name, equals, text = word.partition("=")
            if not equals:
                if at >= len(self.parameters):
                    raise SpecError(
                        f"fault {self.name!r} takes {len(self.parameters)} parameters; {word!r} is too many"
                    )
                name, text = self.parameters[at].name, word
            parameter = next((each for each in self.parameters if each.name == name), None)
            if parameter is None:
                if not self.parameters:
                    raise SpecError(f"fault {self.name!r} takes no parameters, so not {name!r}")
                raise SpecError(unknown_word(f"parameter of fault {self.name!r}", name, self.names))
            if name in given:
                raise SpecError(f"fault {self.name!r}: parameter {name!r} is given twice; give it once")
            given[name] = _read(self.name, parameter, text)
        return tuple(given.get(each.name, each.default) for each in self.parameters)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters, in order."""
        return tuple(each.name for each in self.parameters)


def _read(verb: str, parameter: Parameter, text: str) -> Value:
    try:
        return parameter.read(text)
    except ValueError as error:
        message = f"fault {verb!r}: {parameter.name}={text!r}: expected {parameter.allowed}"
        raise SpecError(message) from error


def _whole(low: int, high: int) -> Callable[[str], Value]:
    def read(text: str) -> Value:
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 12 and low <= int(text) <= high):
            raise ValueError(text)
        return int(text)

    return read


def _number(low: float, high: float) -> Callable[[str], Value]:
    def read(text: str) -> Value:
        value = float(text)
        if not low <= value <= high:
            raise ValueError(text)
        return value

    return read


def _ending(text: str) -> Value:
    """An exit code, or the name of a signal without SIG."""
    name = text.upper().removeprefix("SIG")
    if hasattr(signal.Signals, f"SIG{name}"):
        return name
    return _whole(0, 255)(text)


def _one_of(*words: str) -> Callable[[str], Value]:
    def read(text: str) -> Value:
        if text not in words:
            raise ValueError(text)
        return text

    return read


def _agent() -> Parameter:
    return Parameter("agent", _whole(-1, 2**31 - 1), -1, "an agent's id, or -1 for the first one there is")


def _place(name: str) -> Parameter:
    return Parameter(name, _whole(0, 2**20), 0, "a whole number from 0 on")


def _not_finite(name: str, what: str) -> Verb:
    where = Parameter("field", _one_of("observation", "reward"), "observation", "observation or reward")
    return Verb(
        name, WORLDS, f"{what} in an observation or reward", (_agent(), _place("index"), _place("sensor"), where)
    )


_MIB = Parameter("mib", _number(0.001, MIB_MAX), 8.0, f"mebibytes, up to {MIB_MAX}")
_ALL = (
    Verb("crash", PHASES, "ends, by exit code or signal", (Parameter("how", _ending, 1, "an exit code or a signal"),)),
    Verb("hang", PHASES, "stays alive and silent"),
    Verb(
        "delay",
        PHASES,
        "answers late: constant, growing by `grow` each time, or log-normal about `ms` when sigma is not 0",
        (
            Parameter("ms", _number(0, 3_600_000), 100.0, "milliseconds"),
            Parameter("grow", _number(0, 3_600_000), 0.0, "milliseconds"),
            Parameter("sigma", _number(0, 10), 0.0, "a number from 0 to 10"),
        ),
    ),
    Verb(
        "truncate",
        CALLS,
        "sends the first bytes of its message only",
        (Parameter("bytes", _whole(-1, 2**31 - 1), -1, "a number of bytes, or -1 for half of the message"),),
    ),
    Verb(
        "garbage",
        CALLS,
        "sends bytes that are no message",
        (Parameter("bytes", _whole(1, 2**26), 64, "a number of bytes"),),
    ),
    Verb(
        "rst",
        CALLS,
        "resets the connection when this many bytes of the call are on their way",
        (Parameter("bytes", _whole(0, 2**26), 0, "a number of bytes"),),
        needs_process=True,
    ),
    Verb("version", ("handshake",), "introduces itself with this version", (Parameter("text", str, "", "any text"),)),
    Verb("duplicate", WORLDS, "sends an agent twice in one message", (_agent(),)),
    Verb("vanish", WORLDS, "never sends this agent again", (_agent(),), lasts=True),
    _not_finite("nan", "not a number"),
    _not_finite("inf", "infinity"),
    _not_finite("huge", "3e38, which is finite"),
    Verb("reshape", WORLDS, "an observation has one more number than announced", (_agent(), _place("sensor"))),
    Verb("respec", WORLDS, "announces a known behavior again, with one more action"),
    Verb(
        "stranger",
        WORLDS,
        "sends agents of a behavior that was never announced",
        (Parameter("name", str, "Stranger", "a behavior's name"),),
    ),
    Verb("empty", WORLDS, "sends no agents; the world waits"),
    Verb(
        "agents",
        WORLDS,
        "sends this many agents more",
        (Parameter("count", _whole(1, AGENTS_MORE_MAX), 10_000, f"a number up to {AGENTS_MORE_MAX}"),),
    ),
    Verb("mask", WORLDS, "forbids every action of a branch", (_agent(), _place("branch"))),
    Verb("pad", CALLS, "makes its message longer", (_MIB,)),
    Verb("flood", PHASES, "prints a lot", (_MIB,), needs_process=True),
    Verb(
        "fork",
        PHASES,
        "leaves a child behind that lives this long",
        (Parameter("s", _number(0.1, 3600), 60.0, "seconds"),),
        needs_process=True,
    ),
)
VERBS: Mapping[str, Verb] = MappingProxyType({verb.name: verb for verb in _ALL})
