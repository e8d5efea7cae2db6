"""What the PolicyHolder decides: keep the newest policy of each behavior, send it to whoever acts, answer requests.

Versions of a behavior only rise; an older one that comes late is dropped and counted. Who has asked once is a
subscriber and gets every later version; an EnvWorker that was started again replaces its predecessor. Who only acts
gets what acts: of most graphs that is half.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from runtime.decisions.effects import InstallPolicy, Reply
from runtime.decisions.frozen import replace
from runtime.errors import ActorProtocolError
from runtime.graph_pieces import acting_piece
from runtime.messages import ActionReply, ActionRequest, PolicyRequest, PolicyUpdate, StopRequest

Effects = tuple[object, ...]

SUBSCRIBERS_MAX = 1024


@dataclass(frozen=True, slots=True)
class Choose:
    """Choose actions with the installed policy and reply to `to`."""

    to: object
    request: ActionRequest
    version: int


@dataclass(frozen=True, slots=True)
class From:
    """A message with the opaque address of its sender."""

    sender: object
    message: object


class Subscriber(NamedTuple):
    """Who gets every version. worker: its number, or -1; only_acts: it needs no values."""

    worker: int
    address: object
    only_acts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderState:
    """Newest policies by behavior; subscribers, oldest first."""

    run: str
    policies: Mapping[str, PolicyUpdate] = field(default_factory=dict)
    subscribers: tuple[Subscriber, ...] = ()
    dropped: int = 0


class PolicyHolderCore:
    """The machine of the PolicyHolder: `handle` takes a message with its sender and returns effects."""

    def __init__(self, run: str) -> None:
        self.state = HolderState(run=run)

    def handle(self, envelope: From, now_s: float) -> Effects:
        """The effects of a message. If this raises, the machine is unchanged."""
        del now_s  # nothing here waits
        message = envelope.message
        if getattr(message, "run", self.state.run) != self.state.run:
            self.state = replace(self.state, dropped=self.state.dropped + 1)
            return ()
        match message:
            case PolicyUpdate():
                self.state, effects = _update(self.state, message)
            case PolicyRequest():
                self.state, effects = _request(self.state, message, envelope.sender)
            case ActionRequest():
                effects = _action(self.state, message, envelope.sender)
            case StopRequest():
                effects = ()
            case _:
                msg = f"the PolicyHolder was sent {type(message).__name__}, which is not for it"
                raise ActorProtocolError(msg)
        return effects


def _update(state: HolderState, message: PolicyUpdate) -> tuple[HolderState, Effects]:
    known = state.policies.get(message.behavior)
    if known is not None and known.version >= message.version:
        return replace(state, dropped=state.dropped + 1), ()
    state = replace(state, policies={**state.policies, message.behavior: message})
    acts = _acting(message)
    fan_out = tuple(
        Reply(each.address, _for_worker(acts if each.only_acts else message, each.worker)) for each in state.subscribers
    )
    return state, (InstallPolicy(message), *fan_out)


def _request(state: HolderState, message: PolicyRequest, sender: object) -> tuple[HolderState, Effects]:
    others = tuple(
        each
        for each in state.subscribers
        if each.address != sender and (message.worker < 0 or each.worker != message.worker)
    )
    asks = Subscriber(message.worker, sender, message.only_acts)
    subscribers = (*others, asks)[-SUBSCRIBERS_MAX:]
    state = replace(state, subscribers=subscribers)
    known = state.policies.get(message.behavior)
    if known is None or known.version < message.version:
        return state, ()
    return state, (Reply(sender, _for_worker(_acting(known) if asks.only_acts else known, asks.worker)),)


def _acting(update: PolicyUpdate) -> PolicyUpdate:
    """The update without what only values need."""
    return replace(update, body=acting_piece(update.body)) if update.kind == "onnx" else update


def _for_worker(update: PolicyUpdate, worker: int) -> PolicyUpdate:
    """The update with the grant of this worker alone."""
    return replace(update, grants={each: grant for each, grant in update.grants.items() if each == worker})


def _action(state: HolderState, message: ActionRequest, sender: object) -> Effects:
    known = state.policies.get(message.behavior)
    if known is not None:
        return (Choose(sender, message, known.version),)
    names = ", ".join(sorted(state.policies)) or "none"
    refusal = ActionReply(
        run=state.run,
        request_id=message.request_id,
        behavior=message.behavior,
        version=-1,
        action_info=None,
        refusal=f"no policy of behavior {message.behavior!r} has been published; there are: {names}",
    )
    return (Reply(sender, refusal),)
