"""What can go wrong with a player, sorted by whose mistake it is."""


class FakeUnityError(Exception):
    """Root of the exceptions of this package."""


class SpecError(FakeUnityError, ValueError):
    """The user's mistake: a scene, key or value that does not exist. The message names the nearest that does."""


class TrainerMistakeError(FakeUnityError):
    """The trainer's mistake: bytes, versions or actions that a real player would not have survived."""


class ConnectError(FakeUnityError):
    """Nobody answered at the trainer's port within the connect deadline."""
