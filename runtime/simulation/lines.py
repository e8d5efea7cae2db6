"""The one line that repeats a simulation: seed, options, and the choices that are taken back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from runtime.errors import UsageError
from runtime.simulation.draws import NO_SKIPS, Skips
from runtime.simulation.scenarios import OPTIONS, PROFILES, Profile, Scenario, draw, with_options

FORM = "v1:PROFILE:SEED[:OPTION=VALUE]...[:skip=NUMBERS or :only=NUMBERS], as v1:troubled:64:agents=1:skip=3,7-12"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What is needed to repeat a simulation exactly, with the same version of the code."""

    profile: Profile
    seed: int
    options: Mapping[str, str] = field(default_factory=dict)
    skips: Skips = NO_SKIPS

    def __str__(self) -> str:
        parts = ["v1", self.profile, str(self.seed), *(f"{key}={value}" for key, value in self.options.items())]
        skips = self.skips.text()
        return ":".join([*parts, skips] if skips else parts)

    def scenario(self) -> Scenario:
        """What is simulated. Raises UsageError for options that are unknown."""
        return with_options(draw(self.seed, self.profile), self.options)


def parse_line(text: str) -> Line:
    """The inverse of `str(line)`. Raises UsageError for anything else."""
    version, *rest = text.strip().split(":")
    if version != "v1" or len(rest) < 2:
        raise UsageError(f"{text!r} is no line of a simulation; expected {FORM}")
    profile = next((each for each in PROFILES if each == rest[0]), None)
    if profile is None:
        raise UsageError(f"{text!r}: there is no profile {rest[0]!r}; there are: {', '.join(PROFILES)}")
    options: dict[str, str] = {}
    skips = NO_SKIPS
    try:
        seed = int(rest[1])
        if seed < 0:
            raise UsageError(f"{text!r} has the seed {seed}; expected an integer from 0 on")
        for part in rest[2:]:
            key, _, value = part.partition("=")
            if key in {"skip", "only"}:
                skips = Skips.parse(key, value)
            else:
                options[key] = value
    except ValueError:
        raise UsageError(
            f"{text!r} has a number that is none, or a range that ends before it begins; expected {FORM}"
        ) from None
    unknown = [key for key in options if key not in OPTIONS]
    if unknown:
        raise UsageError(f"{text!r}: there is no option {unknown[0]!r}; there are: {', '.join(OPTIONS)}")
    line = Line(profile=profile, seed=seed, options=options, skips=skips)
    line.scenario()
    return line
