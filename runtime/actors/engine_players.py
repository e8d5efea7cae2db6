"""What an EnvWorker's players come from, and what became of one that failed."""

from __future__ import annotations

import cloudpickle

from runtime.errors import (
    EnvironmentFactoryError,
    PlayerContentError,
    PlayerDiedError,
    PlayerError,
    PlayerTimeoutError,
    PortInUseError,
    VersionMismatchError,
)
from runtime.messages import LossKind
from runtime.players.links import PlayerFactory

_KINDS: tuple[tuple[type[PlayerError], LossKind], ...] = (
    (PlayerContentError, "content"),
    (VersionMismatchError, "version"),
    (PortInUseError, "port"),
    (EnvironmentFactoryError, "environment"),
    (PlayerTimeoutError, "timeout"),
    (PlayerDiedError, "died"),
)


def open_factory(pickled: bytes) -> PlayerFactory:
    """The PlayerFactory in `pickled`; a user's plain `env_factory` is wrapped. Raises EnvironmentFactoryError."""
    try:
        factory = cloudpickle.loads(pickled)
    except Exception as error:
        msg = (
            f"the env_factory could not be unpickled in the EnvWorker: {type(error).__name__}: {error}. "
            "Everything that it uses must be importable there."
        )
        raise EnvironmentFactoryError(msg) from error
    if isinstance(factory, PlayerFactory):
        return factory
    from runtime.players.factories import ObjectPlayerFactory  # noqa: PLC0415 - players are only loaded where needed

    return ObjectPlayerFactory(factory)


def kind_of(error: PlayerError) -> LossKind:
    """What to call the loss of a player that failed with this error."""
    for error_type, kind in _KINDS:
        if isinstance(error, error_type):
            return kind
    return "protocol"
