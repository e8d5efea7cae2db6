"""What the released clients make of each fault: what they raise and where, or what they show."""

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

Seen = Sequence[Mapping[str, Mapping[str, Any]]]  # JSON: what `rows` of a client's script notes, the reset first
STEPS = 5
AGENTS = 2
CHILD_S = 37.25
HUGE: float = struct.unpack("<f", struct.pack("<f", 3e38))[0]


def anything(_seen: Seen) -> bool:
    """Nothing is asked of what was seen."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A fault, and how a run of a reset and five steps ends.

    error, message: the exception's type and part of its text, empty where the run ends well. at: where it comes.
    shows: whether what was seen is what the client shows of this fault. left: processes that outlive the run.
    """

    fault: str
    at: str = "closing"
    error: str = ""
    message: str = ""
    shows: Callable[[Seen], bool] = anything
    left: int = 0
    is_seen: bool = True
    """Whether the player lives long enough to say that it did wrong."""


def ids(seen: Seen) -> list[list[int]]:
    """The agents of each message."""
    return [list(rows["Basic"]["ids"]) for rows in seen]


def everybody(seen: Seen) -> bool:
    """Whether both agents were there each time."""
    return all(len(agents) == AGENTS == len(set(agents)) for agents in ids(seen)) and len(seen) == STEPS + 1


def counts(seen: Seen) -> list[int]:
    """How many agents each message had."""
    return [len(agents) for agents in ids(seen)]


def ended(fault: str, at: str, message: str) -> Case:
    """The player's process ended, and the client of 1.1.0 says so."""
    return Case(fault=fault, at=at, error="UnityEnvironmentException", message=message)


def silent(fault: str, at: str) -> Case:
    """The client waited as long as it was told to."""
    return Case(fault=fault, at=at, error="UnityTimeOutException", message="took too long to respond")


GEN2: tuple[Case, ...] = (
    ended("crash:9@connect", "opening", "return code 9"),
    ended("crash:9@handshake", "opening", "return code 9"),
    ended("crash:3@reset", "reset", "return code 3"),
    ended("crash:SEGV@step=2", "step 2", "return code -11 (SIGSEGV)"),
    ended("crash:KILL@exchange=4", "step 2", "return code -9 (SIGKILL)"),
    Case(fault="crash:9@close", shows=everybody),
    silent("hang@connect", "opening"),
    silent("hang@handshake", "opening"),
    silent("hang@reset", "reset"),
    silent("hang@step=2", "step 2"),
    Case(fault="hang@close", shows=everybody),
    Case(fault="delay:ms=200@step", shows=everybody),
    Case(fault="delay:ms=50:grow=50@step", shows=everybody),
    Case(fault="delay:ms=50:sigma=1@handshake", shows=everybody),
    # A call that cannot be read is refused by the client's server; the player, refused, ends with 0.
    ended("truncate@handshake", "opening", "return code 0"),
    ended("truncate@step=2", "step 2", "return code 0"),
    ended("garbage@handshake", "opening", "return code 0"),
    ended("garbage@reset", "reset", "return code 0"),
    ended("rst@handshake", "opening", "return code 0"),
    ended("rst:bytes=20@step=2", "step 2", "return code 0"),
    Case(fault="version:2.0.0@handshake", at="opening", error="UnityEnvironmentException", message="Unity API: 2.0.0"),
    Case(fault="version:API-9@handshake", at="opening", error="ValueError", message="invalid version number 'API-9'"),
    Case(fault="version@handshake", at="opening", error="AttributeError", message="'version'"),
    Case(fault="duplicate:1@step=2", shows=lambda seen: ids(seen)[2] == [0, 1, 1] and counts(seen)[3] == AGENTS),
    Case(fault="vanish:1@step=2", shows=lambda seen: ids(seen) == [[0, 1], [0, 1], [0], [0], [0], [0]]),
    Case(fault="nan@step=2", at="step 2", error="RuntimeError", message="observations provided had NaN"),
    Case(fault="nan:field=reward@step=2", at="step 2", error="RuntimeError", message="rewards provided had NaN"),
    Case(fault="inf@reset", at="reset", error="RuntimeError", message="observations provided had Infinite"),
    Case(fault="inf:field=reward@step=2", at="step 2", error="RuntimeError", message="rewards provided had Infinite"),
    Case(fault="huge@step=2", shows=lambda seen: seen[2]["Basic"]["first"][0] == HUGE),
    Case(
        fault="reshape@step=2",
        at="step 2",
        error="UnityObservationException",
        message="Observation at index=0 for agent with id=0 didn't match the ObservationSpec",
    ),
    # The client takes the new description for the old one; the player then gets actions that it never asked for.
    Case(
        fault="respec@step=2",
        at="step 3",
        error="UnityCommunicatorStoppedException",
        message="Communicator has exited",
        shows=lambda seen: seen[2]["Basic"]["actions"] == [1000],
    ),
    Case(fault="stranger@step=2", shows=lambda seen: everybody(seen) and all(set(rows) == {"Basic"} for rows in seen)),
    Case(fault="empty@step=2-3", shows=lambda seen: counts(seen) == [2, 2, 0, 0, 2, 2]),
    Case(fault="agents@step=2", shows=lambda seen: counts(seen) == [2, 2, 10_002, 2, 2, 2]),
    # Its default action is a masked one, and the player ends as a build would.
    Case(
        fault="mask:1@step=2",
        at="step 3",
        error="UnityCommunicatorStoppedException",
        message="Communicator has exited",
        shows=lambda seen: seen[2]["Basic"]["masked"] == [[0], [3]],
    ),
    Case(fault="pad:mib=1@step=2", shows=everybody),
    # Its server takes 4 MiB at most.
    ended("pad:mib=8@step=2", "step 2", "return code 0"),
    Case(fault="flood:mib=2@step=2", shows=everybody),
    Case(fault=f"fork:s={CHILD_S}@step=2", shows=everybody, left=1),
)


GEN1: tuple[Case, ...] = (
    silent("crash:9@connect", "opening"),
    silent("crash:9@handshake", "opening"),
    # These clients kill their player as soon as they have told it to stop.
    Case(fault="crash:9@close", shows=everybody, is_seen=False),
    silent("hang@connect", "opening"),
    silent("hang@handshake", "opening"),
    Case(fault="hang@close", shows=everybody, is_seen=False),
    Case(fault="delay:ms=200@step", shows=everybody),
    Case(fault="delay:ms=50:grow=50@step", shows=everybody),
    silent("truncate@handshake", "opening"),
    silent("garbage@handshake", "opening"),
    silent("rst@handshake", "opening"),
    Case(fault="version:API-7@handshake", at="opening", error="UnityEnvironmentException", message="API-7"),
    Case(fault="version@handshake", at="opening", error="UnityEnvironmentException", message="not compatible"),
    Case(fault="duplicate@step=2", shows=lambda seen: counts(seen) == [2, 2, 3, 2, 2, 2]),
    Case(fault="vanish@step=2", shows=lambda seen: counts(seen) == [2, 2, 1, 1, 1, 1]),
    # What is not a number becomes 0, and what is infinite the largest number.
    Case(fault="nan@step=2", shows=lambda seen: 0.0 in seen[2]["Basic"]["first"]),
    Case(fault="nan:field=reward@step=2", shows=lambda seen: 0.0 in seen[2]["Basic"]["rewards"]),
    Case(fault="inf@step=2", shows=lambda seen: max(seen[2]["Basic"]["first"]) > 1e300),
    Case(fault="inf:field=reward@step=2", shows=lambda seen: math.inf in seen[2]["Basic"]["rewards"]),
    Case(fault="huge@step=2", shows=lambda seen: HUGE in seen[2]["Basic"]["first"]),
    Case(fault="stranger@step=2", at="step 2", error="KeyError", message="Stranger"),
    Case(fault="empty@step=2-3", shows=lambda seen: counts(seen) == [2, 2, 0, 0, 2, 2]),
    Case(fault="agents@step=2", shows=lambda seen: counts(seen) == [2, 2, 10_002, 2, 2, 2]),
    Case(fault="pad:mib=1@step=2", shows=everybody),
    silent("pad:mib=8@handshake", "opening"),
    Case(fault="flood:mib=2@step=2", shows=everybody),
    Case(fault=f"fork:s={CHILD_S}@step=2", shows=everybody, left=1),
)


def _all_masked(error: str) -> Case:
    """The client's default action is a masked one, and the player ends as a build would."""
    return Case(
        fault="mask@step=2",
        at="step 3",
        error=error,
        shows=lambda seen: sorted(seen[2]["Basic"]["masked"]) == [0, 3],
    )


TABLES: Mapping[str, tuple[Case, ...]] = MappingProxyType(
    {
        "client-1.1.0": GEN2,
        "client-0.9.3": (*GEN1, _all_masked("UnityCommunicationException")),
        # As if somebody had pressed a key.
        "client-0.8.2": (*GEN1, _all_masked("KeyboardInterrupt")),
    }
)

# What has no outcome in a client, by the verb and where: why there is none to assert.
WAITS_FOR_EVER = "after the first call the client waits without a limit and does not look whether its player lives"
_UNDEFINED_GEN2: Mapping[str, str] = MappingProxyType(
    {
        "crash@exchange=1": "the client waits for the second call without a limit",
        "hang@exchange=1": "the client waits for the second call without a limit",
    }
)
_UNDEFINED_GEN1: Mapping[str, str] = MappingProxyType(
    {
        **{f"{verb}@step": WAITS_FOR_EVER for verb in ("crash", "hang", "truncate", "garbage", "rst")},
        "pad:mib=8@step": WAITS_FOR_EVER,
        "reshape": "rows of unequal length become whatever the numpy that is installed makes of them",
        "respec": "brains are announced in the first call only, so there is nothing to announce again",
    }
)
UNDEFINED: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {"client-1.1.0": _UNDEFINED_GEN2, "client-0.9.3": _UNDEFINED_GEN1, "client-0.8.2": _UNDEFINED_GEN1}
)
