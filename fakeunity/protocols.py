"""The versions of the communicator that a player can speak, and what each of them can carry.

| version | Unity packages | adds |
|---|---|---|
| API-8, API-9, API-10 | v0.8, v0.9, v0.10 | the beginning: brains in the handshake, one vector, memories, text |
| 1.0.0 | 1.0 to 1.3 | sensors, behaviors that appear late, side channels, `baseRLCapabilities` |
| 1.1.0 | 1.4 | several PNG files in one observation |
| 1.2.0 | 1.5, 1.6 | the channel mapping of compressed observations |
| 1.3.0 | 1.7 | continuous and discrete actions at once, `action_spec` |
| 1.4.0 | 1.8 | properties of dimensions, goal observations |
| 1.5.0 | 1.9 to 4.0 | variable-length observations, groups, names of observations |

What lies between the two generations, API-11 to 0.15.0, is not spoken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

OLDEST = "API-8"
FIRST_OF_GEN2 = "1.0.0"
NEWEST = "1.5.0"
# The last package whose pictures have their channels last, and the first with the channels in front; both speak 1.5.0.
CHANNELS_LAST_PACKAGE = "2.3.0-exp.3"
CHANNELS_FIRST_PACKAGE = "3.0.0"

# The minor version of 1.x that introduced each capability.
CAPABILITIES: Mapping[str, int] = MappingProxyType(
    {
        "baseRLCapabilities": 0,
        "concatenatedPngObservations": 1,
        "compressedChannelMapping": 2,
        "hybridActions": 3,
        "trainingAnalytics": 4,
        "variableLengthObservation": 5,
        "multiAgentGroups": 5,
    }
)


@dataclass(frozen=True, slots=True)
class Protocol:
    """One version. rank: its place among all of them, in order of appearance.

    package: the version of the Unity package that tells it; empty in the old generation, which tells none.
    """

    version: str
    rank: int
    package: str = ""

    @property
    def is_gen1(self) -> bool:
        """Whether it is of the old generation, that of 2019."""
        return not self.package

    @property
    def minor(self) -> int:
        """The second number of 1.x; raises ValueError for the old generation."""
        if self.is_gen1:
            raise ValueError(f"{self.version} has no minor version")
        return int(self.version.split(".")[1])

    def capabilities(self) -> tuple[str, ...]:
        """Names of the capabilities that a player of this version tells; none in the old generation."""
        return () if self.is_gen1 else tuple(name for name, since in CAPABILITIES.items() if since <= self.minor)


_VERSIONS = (
    ("API-8", ""),
    ("API-9", ""),
    ("API-10", ""),
    ("1.0.0", "1.3.0-preview"),
    ("1.1.0", "1.4.0-preview"),
    ("1.2.0", "1.6.0-preview"),
    ("1.3.0", "1.7.2-preview"),
    ("1.4.0", "1.8.1-preview"),
    ("1.5.0", CHANNELS_FIRST_PACKAGE),
)
PROTOCOLS: Mapping[str, Protocol] = MappingProxyType(
    {version: Protocol(version, rank, package) for rank, (version, package) in enumerate(_VERSIONS)}
)


def since(version: str) -> tuple[str, ...]:
    """The versions that are not older than `version`, oldest first."""
    return tuple(name for name, protocol in PROTOCOLS.items() if protocol.rank >= PROTOCOLS[version].rank)
