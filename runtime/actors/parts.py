"""What every part of a run has in common, whichever system carries it: a host that sends, times and logs for it.

A part is a thin shell over a decision machine. Thespian (`actors`) and the one-process system (`inline`) host the same
parts; neither is known here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Protocol

from runtime.decisions.effects import CancelTimer, Finish, Reply, Report, Role, Send, SetTimer


class Host(Protocol):
    """What carries a part. All calls are made on the part's own thread, except `post`."""

    def now_s(self) -> float:
        """Monotonic seconds."""

    def send(self, to: Role, message: object) -> None:
        """Send a message to a part by its role; kept until the part can be reached, lost if it is gone."""

    def reply(self, to: object, message: object) -> None:
        """Send a message to an opaque address that came with one before."""

    def set_timer(self, token: Hashable, delay_s: float) -> None:
        """Have the part's `timer` called with `token`; a later timer of the same token replaces it."""

    def cancel_timer(self, token: Hashable) -> None:
        """Forget a timer."""

    def post(self, function: Callable[[], object]) -> None:
        """Have a function called on the part's thread; safe on any thread."""

    def finish(self) -> None:
        """The part has nothing more to do."""

    def spawn(self, role: Role, generation: int) -> None:
        """Start a part; its PartReady or PartExited comes back as a message. For the Supervisor only."""

    def kill(self, role: Role, generation: int) -> None:
        """Kill a part at once. For the Supervisor only."""


class Part(Protocol):
    """One part of a run. Exceptions that leave these methods are the host's to report as failures."""

    def begin(self) -> None:
        """Called once, first."""

    def receive(self, message: object, sender: object) -> None:
        """Called with each message; sender is an opaque address for `Host.reply`."""

    def timer(self, token: Hashable) -> None:
        """Called when a timer is due."""

    def close(self) -> None:
        """Called last: leave nothing running."""


def perform_common(host: Host, effect: object, report: Callable[[str, str], None]) -> bool:
    """Carry out an effect that every part knows; False when it is not one of them."""
    match effect:
        case Send(to, message):
            host.send(to, message)
        case Reply(to, message):
            host.reply(to, message)
        case SetTimer(token, delay_s):
            host.set_timer(token, delay_s)
        case CancelTimer(token):
            host.cancel_timer(token)
        case Report(level, text):
            report(level, text)
        case Finish():
            host.finish()
        case _:
            return False
    return True
