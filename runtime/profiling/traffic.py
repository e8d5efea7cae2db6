"""How many messages this process has sent to other actors, and how many bytes they were."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Sent(NamedTuple):
    """Messages of one type."""

    messages: int
    size: int


class Traffic:
    """Counts by type of message. One dictionary lookup per message, of which there are few, so it always counts."""

    def __init__(self) -> None:
        self._sent: dict[str, Sent] = {}

    def note(self, message: object, payload: object) -> None:
        """A message was sent; payload: its bytes, as far as it was pickled."""
        name = type(message).__name__
        messages, size = self._sent.get(name, (0, 0))
        self._sent[name] = Sent(messages + 1, size + (len(payload) if isinstance(payload, bytes) else 0))

    def sent(self) -> Mapping[str, Sent]:
        """All so far."""
        return dict(self._sent)


TRAFFIC = Traffic()
"""Of this process."""
