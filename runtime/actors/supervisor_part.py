"""The Supervisor as a part: starts and kills the others as its machine decides."""

from __future__ import annotations

import logging
from collections.abc import Hashable

from runtime.actors.parts import Host, perform_common
from runtime.decisions.effects import KillPart, SpawnPart, TimerFired
from runtime.decisions.policy_holder import From
from runtime.decisions.supervisor import SupervisorCore, SupervisorOptions
from runtime.errors import InternalError

logger = logging.getLogger(__name__)


class SupervisorPart:
    """The parent of all other parts."""

    def __init__(self, host: Host, options: SupervisorOptions) -> None:
        self._host = host
        self._core = SupervisorCore(options)

    def begin(self) -> None:
        """Start every part."""
        self._perform_all(self._core.begin())

    def receive(self, message: object, sender: object) -> None:
        """A message from a part or the launcher, or a fact about a part."""
        self._perform_all(self._core.handle(From(sender, message), self._host.now_s()))

    def timer(self, token: Hashable) -> None:
        """A timer of the machine's."""
        self.receive(TimerFired(token), None)

    def close(self) -> None:
        """The parts end with the system."""

    def _perform_all(self, effects: tuple[object, ...]) -> None:
        for effect in effects:
            match effect:
                case SpawnPart(role, generation):
                    self._host.spawn(role, generation)
                case KillPart(role, generation):
                    self._host.kill(role, generation)
                case _ if not perform_common(self._host, effect, _log):
                    msg = f"a Supervisor cannot perform {type(effect).__name__}"
                    raise InternalError(msg)


def _log(level: str, text: str) -> None:
    logger.info("%s", text, extra={"level_of_line": level})
