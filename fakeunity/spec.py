"""Which player to open: `fake:SCENE[?key=value[&key=value]]`, the same keys as `--key value` on the command line.

| key | value | meaning |
|---|---|---|
| agents | 1 to 1024 | agents of each behavior; each scene has a default |
| seed | integer of 64 bits | mixed into every episode's randomness beside the trainer's seed; default 0 |
| link | grpc or memory | a process that dials a port, or the same bytes inside the caller's process; default grpc |
| delay_ms | A-B | milliseconds of wall time before each answer |
| journal | folder | one JSON line per exchange, see `journal` |
| protocol | API-8, API-9, API-10, 1.0.0 to 1.5.0 | the version that is spoken, see `protocols`; default 1.5.0 |
| layout | chw or hwc | whether pictures have their channels first or last; only 1.5.0 has both, chw is its default |
| package | version | of the Unity package, as told to the trainer; by default the last that spoke the protocol |
| stack | 1 to 50 | how many consecutive observations an agent sees at once; default 1 |
| academy_steps | 1 to 2^31-1 | API-8 to API-10: steps until the academy is done, with everybody in it |
| fault | see `faults.plan` | what the player does wrong, and when; several, joined by `;` or given again |
| fault_once | folder | remembers the faults that only one player is to have |

`fake:replay?file=FILE` is the player in a recording, see `cassettes`. Beside `link`, `delay_ms` and `file` it takes:

| key | value | meaning |
|---|---|---|
| tolerant | yes or no | whether values of actions and seeds may differ from the recording; default no |

`,` may stand for `&`; a comma, ampersand or percent sign within a value is written %2C, %26, %25.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Literal
from urllib.parse import quote, unquote

from fakeunity.cassettes.places import found_cassette
from fakeunity.errors import SpecError
from fakeunity.faults.plan import FaultPlan, parse_plan
from fakeunity.nearest import unknown_word
from fakeunity.protocols import CHANNELS_LAST_PACKAGE, NEWEST, PROTOCOLS, Protocol, since
from fakeunity.scenes.catalogue import AGENTS_MAX, SCENES

SCHEME = "fake:"
REPLAY = "replay"
REPLAY_KEYS = frozenset(("link", "delay_ms", "file", "tolerant"))
DELAY_MS_MAX = 3_600_000.0
DELAY_MS = re.compile(r"[0-9]+(\.[0-9]+)?-[0-9]+(\.[0-9]+)?")
PACKAGE = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?")
STACK_MAX = 50
Link = Literal["grpc", "memory"]
Layout = Literal["chw", "hwc"]


@dataclass(frozen=True, slots=True)
class PlayerSpec:
    """A player that could be opened. Build it with `parse_url` or `from_options`, which check every value."""

    scene: str
    agents: int
    seed: int = 0
    link: Link = "grpc"
    delay_ms: tuple[float, float] | None = None
    journal: Path | None = None
    protocol: str = NEWEST
    layout: Layout | None = None
    package: str | None = None
    stack: int = 1
    academy_steps: int = 0
    faults: FaultPlan = FaultPlan()
    file: Path | None = None
    tolerant: bool = False

    @property
    def version(self) -> Protocol:
        """What is known of the protocol."""
        return PROTOCOLS[self.protocol]

    @property
    def package_version(self) -> str:
        """The Unity package that it claims to be; empty in the old generation."""
        if self.package is not None:
            return self.package
        return CHANNELS_LAST_PACKAGE if self.layout == "hwc" and self.protocol == NEWEST else self.version.package

    @property
    def channels_first(self) -> bool:
        """Whether pictures have their channels first: packages from 3.0.0 on, unless `layout` says otherwise."""
        if self.layout is not None:
            return self.layout == "chw"
        return self.protocol == NEWEST and int(self.package_version.partition(".")[0]) >= 3

    def options(self) -> dict[str, str]:
        """Every key that is set, with its value as a user would write it; `from_options` reads it back."""
        options = {"agents": str(self.agents), "seed": str(self.seed)} if self.scene != REPLAY else {}
        if self.link != "grpc":
            options["link"] = self.link
        if self.delay_ms is not None:
            options["delay_ms"] = "-".join(f"{Decimal(repr(bound)):f}" for bound in self.delay_ms)
        if self.journal is not None:
            options["journal"] = str(self.journal)
        if self.protocol != NEWEST:
            options["protocol"] = self.protocol
        if self.layout is not None:
            options["layout"] = self.layout
        if self.package is not None:
            options["package"] = self.package
        if self.stack != 1:
            options["stack"] = str(self.stack)
        if self.academy_steps:
            options["academy_steps"] = str(self.academy_steps)
        if self.faults.faults:
            options["fault"] = str(self.faults)
        if self.faults.once_folder is not None:
            options["fault_once"] = str(self.faults.once_folder)
        if self.file is not None:
            options["file"] = str(self.file)
        if self.tolerant:
            options["tolerant"] = "yes"
        return options

    def url(self) -> str:
        """The text that `parse_url` turns into this spec."""
        return f"{SCHEME}{self.scene}?" + "&".join(f"{key}={quote(v, safe='/')}" for key, v in self.options().items())

    def command_line(self, *, port: int | None = None, env_id: int | None = None) -> list[str]:
        """The command that runs this player as a process: what a trainer launches, before Unity's own arguments.

        Without `port` the caller adds `--mlagents-port N` (`--port N` in the old generation) itself. Raises ValueError
        for link=memory, which has no process.
        """
        if self.link == "memory":
            raise ValueError("link=memory runs inside the caller's process: use fakeunity.memory.open_player")
        command = [sys.executable, "-m", "fakeunity", self.scene]
        options = self.options() | ({} if env_id is None else {"env_id": str(env_id)})
        for key, value in options.items():
            command += [f"--{key.replace('_', '-')}={value}"]
        if port is not None:
            command += ["--port" if self.version.is_gen1 else "--mlagents-port", str(port)]
        return command


def parse_url(url: str) -> PlayerSpec:
    """The player that `url` describes. Raises SpecError, a ValueError, saying what is wrong and what is nearest."""
    if not url.startswith(SCHEME):
        raise SpecError(f"{url!r} does not begin with {SCHEME!r}; write {SCHEME}SCENE[?key=value&key=value]")
    scene, question, query = url.removeprefix(SCHEME).partition("?")
    pairs: list[tuple[str, str]] = []
    if question:
        for part in query.replace(",", "&").split("&"):
            key, equals, value = part.partition("=")
            if not equals:
                raise SpecError(f"{url!r}: {part!r} is no key=value; write {SCHEME}{scene}?key=value&key=value")
            pairs.append((key, unquote(value)))
    return from_options(scene, pairs)


def from_options(scene: str, pairs: Iterable[tuple[str, str]], base: PlayerSpec | None = None) -> PlayerSpec:
    """The player of `scene` with these keys and values; those not given come from `base` or are the defaults.

    Raises SpecError for an unknown scene or key, a repeated key, or a value outside its range.
    """
    if scene not in SCENES and scene != REPLAY:
        raise SpecError(unknown_word("scene", scene, (*SCENES, REPLAY)))
    spec = base if base is not None else PlayerSpec(scene, SCENES[scene].agents if scene in SCENES else 1)
    seen: set[str] = set()
    for key, value in _with_faults_joined(pairs):
        if key not in READERS:
            raise SpecError(unknown_word("key", key, READERS))
        if key in seen:
            raise SpecError(f"key {key!r} is given twice; give it once")
        seen.add(key)
        spec = READERS[key](spec, value)
    if scene == REPLAY:
        _check_replay(spec, seen)
    else:
        _check_together(spec)
    return spec


def _with_faults_joined(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The pairs, all faults in one: the only key that may be given more than once."""
    pairs = list(pairs)
    faults = [value for key, value in pairs if key == "fault"]
    # An empty one is no fault, and not an empty part of a plan of several.
    plan = ";".join(filter(str.strip, faults))
    return [pair for pair in pairs if pair[0] != "fault"] + ([("fault", plan)] if faults else [])


def _check_replay(spec: PlayerSpec, given: set[str]) -> None:
    """Raises SpecError for what a recording does not leave open, and for no recording."""
    wrong = sorted(given - REPLAY_KEYS)
    if wrong:
        raise SpecError(f"a recorded player takes {', '.join(sorted(REPLAY_KEYS))}, not {wrong[0]!r}")
    if spec.file is None:
        raise SpecError(f"which recording? write {SCHEME}{REPLAY}?file=FILE, or `replay FILE` on the command line")
    if not found_cassette(spec.file, env_id=0, life=0).is_file():
        raise SpecError(f"file={str(spec.file)!r}: there is no such recording; `--record FILE` of a training makes one")


def _check_together(spec: PlayerSpec) -> None:
    """Raises SpecError for values that are right by themselves and wrong together."""
    if spec.file is not None or spec.tolerant:
        raise SpecError(f"file and tolerant are for recordings: {SCHEME}{REPLAY}?file=FILE")
    spec.faults.require(spec.link)
    card, protocol = SCENES[spec.scene], spec.protocol
    if spec.version.rank < PROTOCOLS[card.since].rank:
        raise SpecError(
            f"scene {spec.scene!r} {card.why_since}, which {protocol} cannot carry; "
            f"its protocols are {', '.join(since(card.since))}"
        )
    if spec.version.is_gen1 and spec.package is not None:
        raise SpecError(f"package={spec.package!r}: players of {protocol} do not tell their package; leave it out")
    if protocol != NEWEST and spec.layout == "chw":
        raise SpecError(f"layout='chw': pictures of {protocol} have their channels last; write hwc, or nothing")
    if spec.academy_steps and not spec.version.is_gen1:
        raise SpecError(
            f"academy_steps={spec.academy_steps}: the academy of {protocol} has no end; leave it out, or take one of "
            f"{', '.join(name for name, version in PROTOCOLS.items() if version.is_gen1)}"
        )


def integer(key: str, value: str, low: int, high: int) -> int:
    """`value` as a whole number within [low, high]. Raises SpecError."""
    digits = value.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) <= 20 and low <= int(value) <= high:
        return int(value)
    raise SpecError(f"{key}={value!r}: expected a whole number from {low} to {high}")


def _agents(spec: PlayerSpec, value: str) -> PlayerSpec:
    return replace(spec, agents=integer("agents", value, 1, AGENTS_MAX))


def _seed(spec: PlayerSpec, value: str) -> PlayerSpec:
    return replace(spec, seed=integer("seed", value, -(2**63), 2**63 - 1))


def _link(spec: PlayerSpec, value: str) -> PlayerSpec:
    if value == "grpc":
        return replace(spec, link="grpc")
    if value == "memory":
        return replace(spec, link="memory")
    raise SpecError(unknown_word("link", value, ("grpc", "memory")))


def _delay_ms(spec: PlayerSpec, value: str) -> PlayerSpec:
    if DELAY_MS.fullmatch(value):
        low, high = (float(bound) for bound in value.split("-"))
        if low <= high <= DELAY_MS_MAX:
            return replace(spec, delay_ms=(low, high))
    raise SpecError(f"delay_ms={value!r}: expected A-B in milliseconds, 0 <= A <= B <= {DELAY_MS_MAX:.0f}, as in 5-20")


def _journal(spec: PlayerSpec, value: str) -> PlayerSpec:
    if not value:
        raise SpecError("journal='': expected a folder")
    return replace(spec, journal=Path(value))


def _protocol(spec: PlayerSpec, value: str) -> PlayerSpec:
    if value not in PROTOCOLS:
        raise SpecError(unknown_word("protocol", value, PROTOCOLS))
    return replace(spec, protocol=value)


def _layout(spec: PlayerSpec, value: str) -> PlayerSpec:
    if value == "chw":
        return replace(spec, layout="chw")
    if value == "hwc":
        return replace(spec, layout="hwc")
    raise SpecError(unknown_word("layout", value, ("chw", "hwc")))


def _package(spec: PlayerSpec, value: str) -> PlayerSpec:
    if not PACKAGE.fullmatch(value):
        raise SpecError(f"package={value!r}: expected a version as in 2.0.1 or 2.3.0-exp.3")
    return replace(spec, package=value)


def _stack(spec: PlayerSpec, value: str) -> PlayerSpec:
    return replace(spec, stack=integer("stack", value, 1, STACK_MAX))


def _academy_steps(spec: PlayerSpec, value: str) -> PlayerSpec:
    return replace(spec, academy_steps=integer("academy_steps", value, 1, 2**31 - 1))


def _fault(spec: PlayerSpec, value: str) -> PlayerSpec:
    return replace(spec, faults=replace(parse_plan(value), once_folder=spec.faults.once_folder))


def _fault_once(spec: PlayerSpec, value: str) -> PlayerSpec:
    if not value:
        raise SpecError("fault_once='': expected a folder")
    return replace(spec, faults=replace(spec.faults, once_folder=Path(value)))


def _file(spec: PlayerSpec, value: str) -> PlayerSpec:
    if not value:
        raise SpecError("file='': expected a recording")
    return replace(spec, file=Path(value))


def _tolerant(spec: PlayerSpec, value: str) -> PlayerSpec:
    if value not in ("yes", "no"):
        raise SpecError(unknown_word("answer to tolerant", value, ("yes", "no")))
    return replace(spec, tolerant=value == "yes")


READERS: Mapping[str, Callable[[PlayerSpec, str], PlayerSpec]] = MappingProxyType(
    {
        "agents": _agents,
        "seed": _seed,
        "link": _link,
        "delay_ms": _delay_ms,
        "journal": _journal,
        "protocol": _protocol,
        "layout": _layout,
        "package": _package,
        "stack": _stack,
        "academy_steps": _academy_steps,
        "fault": _fault,
        "fault_once": _fault_once,
        "file": _file,
        "tolerant": _tolerant,
    }
)
