"""Which player to open: `fake:SCENE[?key=value[&key=value]]`, the same keys as `--key value` on the command line.

| key | value | meaning |
|---|---|---|
| agents | 1 to 1024 | agents of each behavior; each scene has a default |
| seed | integer of 64 bits | mixed into every episode's randomness beside the trainer's seed; default 0 |
| link | grpc or memory | a process that dials a port, or the same bytes inside the caller's process; default grpc |
| delay_ms | A-B | milliseconds of wall time before each answer |
| journal | folder | one JSON line per exchange, see `journal` |

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

from fakeunity.errors import SpecError
from fakeunity.nearest import unknown_word
from fakeunity.scenes.catalogue import AGENTS_MAX, SCENES

SCHEME = "fake:"
DELAY_MS_MAX = 3_600_000.0
DELAY_MS = re.compile(r"[0-9]+(\.[0-9]+)?-[0-9]+(\.[0-9]+)?")
Link = Literal["grpc", "memory"]


@dataclass(frozen=True, slots=True)
class PlayerSpec:
    """A player that could be opened. Build it with `parse_url` or `from_options`, which check every value."""

    scene: str
    agents: int
    seed: int = 0
    link: Link = "grpc"
    delay_ms: tuple[float, float] | None = None
    journal: Path | None = None

    def options(self) -> dict[str, str]:
        """Every key that is set, with its value as a user would write it; `from_options` reads it back."""
        options = {"agents": str(self.agents), "seed": str(self.seed)}
        if self.link != "grpc":
            options["link"] = self.link
        if self.delay_ms is not None:
            options["delay_ms"] = "-".join(f"{Decimal(repr(bound)):f}" for bound in self.delay_ms)
        if self.journal is not None:
            options["journal"] = str(self.journal)
        return options

    def url(self) -> str:
        """The text that `parse_url` turns into this spec."""
        return f"{SCHEME}{self.scene}?" + "&".join(f"{key}={quote(v, safe='/')}" for key, v in self.options().items())

    def command_line(self, *, port: int | None = None, env_id: int | None = None) -> list[str]:
        """The command that runs this player as a process: what a trainer launches, before Unity's own arguments.

        Without `port` the caller adds `--mlagents-port N` itself. Raises ValueError for link=memory, which has no
        process.
        """
        if self.link == "memory":
            raise ValueError("link=memory runs inside the caller's process: use fakeunity.memory.open_player")
        command = [sys.executable, "-m", "fakeunity", self.scene]
        options = self.options() | ({} if env_id is None else {"env_id": str(env_id)})
        for key, value in options.items():
            command += [f"--{key.replace('_', '-')}={value}"]
        return command if port is None else [*command, "--mlagents-port", str(port)]


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
    if scene not in SCENES:
        raise SpecError(unknown_word("scene", scene, SCENES))
    spec = base if base is not None else PlayerSpec(scene, SCENES[scene].agents)
    seen: set[str] = set()
    for key, value in pairs:
        if key not in READERS:
            raise SpecError(unknown_word("key", key, READERS))
        if key in seen:
            raise SpecError(f"key {key!r} is given twice; give it once")
        seen.add(key)
        spec = READERS[key](spec, value)
    return spec


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


READERS: Mapping[str, Callable[[PlayerSpec, str], PlayerSpec]] = MappingProxyType(
    {"agents": _agents, "seed": _seed, "link": _link, "delay_ms": _delay_ms, "journal": _journal}
)
