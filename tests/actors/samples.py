"""Small actors that the tests of the actor-system base let run."""

import os
from typing import Any

from runtime.actors.hosting import Child, HostedActor, Start


class Echo(HostedActor):
    """Answers each message with its own pid and the message."""

    def receive(self, message: Any, sender: Any) -> None:
        self.send(sender, (os.getpid(), message))
