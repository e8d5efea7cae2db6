"""Where something went wrong: the words that open every error about a player's messages."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from runtime.errors import EnvironmentFactoryError, PlayerContentError, PlayerProtocolError

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Place:
    """One moment of one player: its environment, incarnation and env step (0 for the reply to a reset)."""

    env_id: int
    incarnation: int = 0
    step: int = 0

    def after_step(self) -> Place:
        """The moment one env step later; asked for at every step, which the library's `replace` would make slower."""
        return Place(self.env_id, self.incarnation, self.step + 1)

    @property
    def environment(self) -> str:
        """The environment in words, without the step."""
        return f"environment {self.env_id} (incarnation {self.incarnation})"

    def content_error(self, text: str) -> PlayerContentError:
        """An error for a value that must not reach training."""
        return PlayerContentError(self._sentence(text), env_id=self.env_id, incarnation=self.incarnation)

    def protocol_error(self, text: str) -> PlayerProtocolError:
        """An error for a message that the protocol does not allow."""
        return PlayerProtocolError(self._sentence(text), env_id=self.env_id, incarnation=self.incarnation)

    def _sentence(self, text: str) -> str:
        return f"{self.environment}, env step {self.step}: {text}"


def made(what: str, make: Callable[[], Made], place: Place) -> Made:
    """What `make` gives; it is the user's. Raises EnvironmentFactoryError with what it raised, and where."""
    try:
        return make()
    except Exception as error:
        raise EnvironmentFactoryError(
            f"{place.environment}: the {what} of the player could not be made: {type(error).__name__}: {error}\n"
            f"{traceback.format_exc()}",
            env_id=place.env_id,
            incarnation=place.incarnation,
        ) from error
