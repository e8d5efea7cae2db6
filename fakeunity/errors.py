"""What can go wrong with a player, sorted by whose mistake it is."""

from typing import ClassVar


class FakeUnityError(Exception):
    """Root of the exceptions of this package."""


class SpecError(FakeUnityError, ValueError):
    """The user's mistake: a scene, key or value that does not exist. The message names the nearest that does."""


class TrainerMistakeError(FakeUnityError):
    """The trainer's mistake: bytes, versions or actions that a real player would not have survived.

    is_final: a player that is started again would meet the same, so a trainer need not try.
    """

    is_final: ClassVar[bool] = True


class ConnectError(FakeUnityError):
    """Nobody answered at the trainer's port within the connect deadline."""
