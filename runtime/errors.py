"""The exception tree: whose fault it is comes first, and with it the exit code.

Texts follow one form: what happened, what was expected, what to do. Every class ends in `Error`, so that none is taken
for a message between actors.
"""

from __future__ import annotations

from typing import ClassVar


class TrainingError(Exception):
    """Root of all errors of this project; catch this to catch us."""

    exit_code: ClassVar[int] = 4


class UsageError(TrainingError):
    """The caller's mistake: a wrong flag, an existing run id, a held lock."""

    exit_code: ClassVar[int] = 2


class ConfigError(UsageError):
    """A configuration file or value that cannot be used."""


class ShapeError(UsageError):
    """An array whose shape or dtype is not the one agreed on."""


class DemonstrationError(UsageError):
    """A demonstration file that cannot be read, or does not fit. offset: the byte where the fault is, -1 if nowhere."""

    def __init__(self, text: str, *, offset: int = -1) -> None:
        super().__init__(text)
        self.offset = offset


class PlayerError(TrainingError):
    """The other side's mistake: carries the environment and its incarnation.

    env_id: number of the environment, -1 when not yet known. incarnation: rises whenever the player is started again.
    is_restartable: death, time-out and broken connection are; a version mismatch and bad content are not.
    """

    exit_code: ClassVar[int] = 3
    is_restartable: ClassVar[bool] = True

    def __init__(self, text: str, *, env_id: int = -1, incarnation: int = 0) -> None:
        super().__init__(text)
        self.env_id = env_id
        self.incarnation = incarnation


class PlayerTimeoutError(PlayerError):
    """The player did not connect or answer in time."""


class PlayerDiedError(PlayerError):
    """The player's process ended, or it closed the connection."""


class PlayerProtocolError(PlayerError):
    """The player sent something that the protocol does not allow."""

    is_restartable: ClassVar[bool] = False


class PlayerRefusalError(PlayerProtocolError):
    """The player does not take what the trainer said, and says that it would not if it were started again."""


class PlayerContentError(PlayerProtocolError):
    """A value that must not reach training: not finite, or of the wrong shape."""


class VersionMismatchError(PlayerError):
    """Player and trainer speak different protocol versions."""

    is_restartable: ClassVar[bool] = False


class PortInUseError(PlayerError):
    """The port for a player is taken by somebody else."""

    is_restartable: ClassVar[bool] = False


class EnvironmentFactoryError(PlayerError):
    """A user's environment object raised an exception of its own."""

    is_restartable: ClassVar[bool] = False


class StorageError(TrainingError):
    """Nothing loadable to resume from, no writable folder, or a failed final save."""

    exit_code: ClassVar[int] = 5


class LearnerError(TrainingError):
    """Learning failed: not-finite weights or losses, or a failed update."""


class ActorProtocolError(TrainingError):
    """Our own actors broke their protocol: a bug."""


class InternalError(TrainingError):
    """An invariant failed: a bug; stop now."""
