"""What may stand in a message to this trainer: the player's version, cut down to what the trainer says it can read."""

from __future__ import annotations

from dataclasses import dataclass

from fakeunity.protocols import NEWEST, PROTOCOLS, Protocol


@dataclass(frozen=True, slots=True)
class Format:
    """A version of 1.x, where pictures have their channels, and the capabilities that both sides have."""

    protocol: Protocol = PROTOCOLS[NEWEST]
    channels_first: bool = True
    shared: frozenset[str] = frozenset(PROTOCOLS[NEWEST].capabilities())

    @property
    def has_dimension_properties(self) -> bool:
        """Whether observations say what their dimensions are, and which of them are goals."""
        return self.protocol.minor >= 4

    @property
    def has_observation_names(self) -> bool:
        """Whether observations have names."""
        return self.protocol.minor >= 5

    @property
    def has_action_spec(self) -> bool:
        """Whether actions are announced by action_spec; else by the fields that came before it."""
        return "hybridActions" in self.shared

    @property
    def has_groups(self) -> bool:
        """Whether agents say which group they are of."""
        return "multiAgentGroups" in self.shared

    @property
    def has_variable_length(self) -> bool:
        """Whether an observation may be of a changing number of things."""
        return "variableLengthObservation" in self.shared

    @property
    def has_channel_mapping(self) -> bool:
        """Whether compressed observations say where their channels go."""
        return "compressedChannelMapping" in self.shared

    def is_compressed(self, frames: int) -> bool:
        """Whether pictures travel as PNG; several in one observation only where the trainer looks for several files."""
        return frames == 1 or "concatenatedPngObservations" in self.shared
