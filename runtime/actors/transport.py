"""Thespian's TCP transport, made safe for a run: loopback listeners, keyed frames, order and single delivery kept.

Everything here overrides methods in subclasses. Thespian's module globals stay as they are, so a stock actor system of
an embedding program works beside ours. What differs from the stock transport, and why:

- Every listener is bound to 127.0.0.1; the stock one binds every interface, whatever address it advertises.
- Frames are those of `frames`: verified before they are unpickled, capped, pickle protocol 5.
- Bytes behind a frame are the next frame. The stock path adds the *decoded message* again, which its 20-byte first
  read hides; ours asks for 64 KiB at once, so most messages and answers need one read.
- An answer names the message it answers. A message sent again after a lost answer is recognised and delivered once.
- A message waits for an older one to the same receiver. The stock transport lets it overtake on a second connection,
  or while the older one waits to be sent again; that wait is 35 s and more there, 0.1 s here.
- The limit of 20 messages under way is per process in the stock transport, so one stopped receiver silences a sender
  for everybody. Here it is 900, and only one per receiver costs anything while it waits.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import secrets
import socket
import sys
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from thespian.actors import ActorAddress
from thespian.system.addressManager import ActorLocalAddress
from thespian.system.timing import ExpirationTimer
from thespian.system.transport import ReceiveEnvelope, SendStatus
from thespian.system.transport.IPBase import TCPv4ActorAddress
from thespian.system.transport.TCPTransport import TCPIncomingPersistent, TCPTransport
from thespian.system.utilis import thesplog

from runtime.actors.frames import Frame, FrameBuffer, FrameError, FrameKind, FrameSeal
from runtime.actors.spawning import RunSettings

LOOPBACK: Final = "127.0.0.1"
LISTEN_DEPTH: Final = 128
TRANSMITS_UNDER_WAY_MAX: Final = 900
RETRY_PERIOD: Final = timedelta(milliseconds=100)
REMEMBERED_SENDERS_MAX: Final = 1024
REMEMBERED_MESSAGES_MAX: Final = 64
PICKLE_PROTOCOL: Final = 5
LISTEN_BETWEEN_TIMERS_S: Final = 0.0005


class LoopbackAddress(TCPv4ActorAddress):  # type: ignore[misc,unused-ignore]
    """The address of a process of a run: a port of 127.0.0.1, found without asking name servers or routes."""

    def __init__(self, port: int) -> None:
        self.af = socket.AF_INET
        self.socktype = socket.SOCK_STREAM
        self.proto = socket.IPPROTO_TCP
        self.sockname = (LOOPBACK, port)
        self.bindname = (LOOPBACK, port)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What a process needs to take part; made by its parent, pickled into it.

    addrInst: Thespian's number of a child within its parent, None for the admin and for the outside.
    listener: descriptor of a socket that already listens, None to listen on a free port.
    """

    settings: RunSettings
    addrInst: int | None = None  # noqa: N815 - read by Thespian
    parent: Any = None  # an untyped ActorAddress
    admin: Any = None
    listener: int | None = None


def listen_on_loopback(port: int = 0) -> socket.socket:
    """A listening socket on 127.0.0.1; port 0 lets the system choose a free one."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, port))
        listener.listen(LISTEN_DEPTH)
    except OSError:
        listener.close()
        raise
    return listener


class _Seen:
    """Which messages of which senders have arrived, for as long as a repetition of them is conceivable."""

    def __init__(self) -> None:
        self._by_sender: OrderedDict[bytes, deque[int]] = OrderedDict()

    def is_new(self, frame: Frame) -> bool:
        recent = self._by_sender.setdefault(frame.sender, deque(maxlen=REMEMBERED_MESSAGES_MAX))
        self._by_sender.move_to_end(frame.sender)
        if len(self._by_sender) > REMEMBERED_SENDERS_MAX:
            self._by_sender.popitem(last=False)
        if frame.sequence in recent:
            return False
        recent.append(frame.sequence)
        return True


class RLTransport(TCPTransport):  # type: ignore[misc,unused-ignore]
    """The transport of one process of a run. Names in mixed case are Thespian's."""

    def __init__(self, endpoint: Endpoint) -> None:
        # The stock constructor binds every interface, so it is passed over; these are the attributes it would set.
        super(TCPTransport, self).__init__()
        self._settings = endpoint.settings
        self.txOnly = False
        self._is_outside = endpoint.parent is None and endpoint.listener is None
        self._adminAddr = endpoint.admin
        self._parentAddr = endpoint.parent
        listener = listen_on_loopback() if endpoint.listener is None else socket.socket(fileno=endpoint.listener)
        self.socket = listener
        self.myAddress = ActorAddress(LoopbackAddress(listener.getsockname()[1]))
        self._transmitIntents: dict[int, Any] = {}
        self._waitingTransmits: list[Any] = []
        self._incomingSockets: dict[int, Any] = {}
        self._incomingEnvelopes: list[Any] = []
        self._finished_intents: list[Any] = []
        self._watches: list[int] = []
        self._openSockets: dict[Any, Any] = {}
        self._checkChildren = False
        self._shutdownSignalled = False
        self._seal = FrameSeal(endpoint.settings.key)
        self._name = secrets.token_bytes(8)
        self._sequence = itertools.count(1)
        self._seen = _Seen()
        # Receivers to which a message is under way, and the messages that wait behind it.
        self._lanes: dict[Any, deque[Any]] = {}
        self._freed_lanes: deque[Any] = deque()
        self._is_advancing = False

    @property
    def refused_frames(self) -> int:
        """How many connections were closed because what came was not from a process of this run."""
        return self._seal.refused

    # ---- life of the endpoint

    def prepEndpoint(self, assignedLocalAddr: Any, _capabilities: Any) -> Endpoint:  # noqa: N802
        """What a child to be started as `assignedLocalAddr` has to be told."""
        details = assignedLocalAddr.addressDetails
        number = details.addressInstanceNum if isinstance(details, ActorLocalAddress) else None
        return Endpoint(self._settings, number, self.myAddress, self._adminAddr)

    def external_transport_clone(self) -> RLTransport:
        """A further way into the system for this process, with a mailbox of its own."""
        return RLTransport(Endpoint(self._settings, admin=self._adminAddr))

    def childResetFileNumList(self) -> list[int]:  # noqa: N802
        """Descriptors a child should close: none, it inherits none and these numbers mean other files there."""
        return []

    def close(self) -> None:
        """Close every socket; may be called again."""
        for idle in getattr(self, "_openSockets", {}).values():
            _close(idle.socket)
        for intent in getattr(self, "_transmitIntents", {}).values():
            _close(getattr(intent, "socket", None))
        for incoming in getattr(self, "_incomingSockets", {}).values():
            _close(incoming.socket)
        listener = getattr(self, "socket", None)
        self._openSockets = {}
        super().close()
        _close(listener)

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        """Close; not while the interpreter ends: modules that it takes are gone then, and the system closes all."""
        if not is_ending():
            self.close()

    # ---- sending

    def serializer(self, intent: Any) -> memoryview:
        """The frame of `intent`; a view, because the stock code slices what is left after each partial send."""
        body = pickle.dumps((self.myAddress, intent.message), PICKLE_PROTOCOL)
        intent.sequence = next(self._sequence)
        intent.transmit_retry_period = RETRY_PERIOD
        return memoryview(self._seal.seal(FrameKind.MESSAGE, self._name, intent.sequence, body))

    def _canSendNow(self) -> bool:  # noqa: N802
        return bool(self._aTB_numPendingTransmits < TRANSMITS_UNDER_WAY_MAX)

    def _submitTransmit(self, intent: Any, has_exclusive_flag: bool = False) -> None:  # noqa: N802, FBT001, FBT002
        # As the stock method, without turning the whole message into text for a log that is off.
        self._aTB_numPendingTransmits += 1
        intent.addCallback(self._async_txdone, self._async_txdone)
        self._scheduleTransmitActual(intent, has_exclusive_flag=has_exclusive_flag)

    def _scheduleTransmitActual(self, intent: Any, has_exclusive_flag: bool = False) -> None:  # noqa: N802, FBT001, FBT002
        if intent.targetAddr != self.myAddress:
            intent.lane = intent.targetAddr.addressDetails.sockname
            if intent.lane in self._lanes:
                self._lanes[intent.lane].append(intent)
                return
            self._lanes[intent.lane] = deque()
        super()._scheduleTransmitActual(intent, has_exclusive_flag)

    def _finishIntent(self, intent: Any, status: Any = SendStatus.Sent) -> bool:  # noqa: N802
        super()._finishIntent(intent, status)
        if hasattr(intent, "lane"):
            self._freed_lanes.append(intent.lane)
        # A message that fails at once ends here again: go on in the outermost call, not in deeper and deeper ones.
        if not self._is_advancing:
            self._is_advancing = True
            try:
                while self._freed_lanes:
                    self._advance(self._freed_lanes.popleft())
            finally:
                self._is_advancing = False
        return False

    def _advance(self, lane: tuple[str, int]) -> None:
        waiting = self._lanes.get(lane)
        if waiting:
            super()._scheduleTransmitActual(waiting.popleft())
        else:
            self._lanes.pop(lane, None)

    def _nextTransmitStep(self, intent: Any) -> bool:  # noqa: N802
        try:
            return bool(getattr(self, f"_next_XMIT_{intent.stage}")(intent))
        except Exception as error:  # noqa: BLE001 - the stock method forgets the message then; those behind it would wait
            self._note(f"sending to {intent.targetAddr} failed: {type(error).__name__}: {error}")
            return self._finishIntent(intent, SendStatus.Failed)

    def _next_XMIT_2(self, intent: Any) -> bool:  # noqa: N802
        is_pending = bool(super()._next_XMIT_2(intent))
        if is_pending and intent.stage == self._XMITStepShutdownWrite:
            return self._next_XMIT_3(intent)
        return is_pending

    def deadAddress(self, addressManager: Any, childAddr: Any) -> None:  # noqa: N802
        """Give up what waits to be sent to an actor that is known to have ended."""
        details = addressManager.exportAddr(childAddr)
        waiting = self._lanes.get(getattr(getattr(details, "addressDetails", None), "sockname", None), deque())
        dropped = list(waiting)
        waiting.clear()
        super().deadAddress(addressManager, childAddr)
        for intent in dropped:
            del intent.lane
            self._finishIntent(intent, SendStatus.DeadTarget)

    def _next_XMIT_3(self, intent: Any) -> bool:  # noqa: N802
        intent.ackbuf = FrameBuffer(self._seal)
        intent.stage = self._XMITStepWaitForAck
        return True

    def _check_XMIT_4_done(self, intent: Any, received: bytes) -> bool:  # noqa: N802
        try:
            intent.ackbuf.addMore(received)
            while intent.ackbuf.isDone():
                frame, extra = intent.ackbuf.take()
                if frame.kind is not FrameKind.MESSAGE:
                    if (frame.sender, frame.sequence) != (self._name, intent.sequence):
                        raise FrameError("the answer to another message came; the connection is closed")
                    intent.extraRead = extra
                    intent.result = SendStatus.Sent if frame.kind is FrameKind.ACCEPTED else SendStatus.BadPacket
                    intent.stage = self._XMITStepFinishCleanup
                    return bool(self._nextTransmitStep(intent))
                # Both sides began to send on this connection: hear the other one while waiting for the answer.
                if self._deliver(intent.socket, frame) is None:
                    raise FrameError("a message came that cannot be read; the connection is closed")
                intent.ackbuf = FrameBuffer(self._seal)
                intent.ackbuf.addMore(extra)
        except FrameError as error:
            thesplog("%s", error)
            intent.stage = self._XMITStepRetry
            return bool(self._nextTransmitStep(intent))
        return True

    # ---- timers

    def _update_runtime(self, max_runtime: Any) -> None:
        super()._update_runtime(max_runtime)
        self.run_time: Any
        if self._pendingWakeups and self.run_time.view().expired():
            # The stock loop hears nobody while a timer is due: one that is always due again would be deaf for ever.
            self.run_time = ExpirationTimer(LISTEN_BETWEEN_TIMERS_S)

    def _realizeWakeups(self) -> bool:  # noqa: N802
        is_any = bool(super()._realizeWakeups())
        self._activeWakeups.reverse()  # they are taken from the end: the first due comes first
        return is_any

    # ---- receiving

    def _handlePossibleIncoming(  # noqa: N802
        self,
        incomingSocket: Any,
        fileno: int,
        closed: bool = False,  # noqa: FBT001, FBT002 - Thespian's signature
        has_exclusive_flag: bool = False,  # noqa: FBT001, FBT002
    ) -> Any:
        # Thespian makes these objects in several places, always with its own buffer; this is where all pass.
        if not isinstance(incomingSocket._rData, FrameBuffer):  # noqa: SLF001
            incomingSocket._rData = FrameBuffer(self._seal)  # noqa: SLF001
        return super()._handlePossibleIncoming(incomingSocket, fileno, closed, has_exclusive_flag=has_exclusive_flag)

    def _queue_intent_extra(self, intent: Any) -> bool:
        extra = getattr(intent, "extraRead", None)
        if not extra:
            return False
        intent.extraRead = b""
        incoming = TCPIncomingPersistent(intent.targetAddr, intent.socket, FrameBuffer(self._seal))
        try:
            incoming.addData(extra)
        except FrameError as error:
            thesplog("%s", error)
            incoming.close()
            return True
        pending = self._addedDataToIncoming(incoming)
        if pending:
            self._incomingSockets[pending.socket.fileno()] = pending
        return True

    def _addedDataToIncoming(  # noqa: N802
        self,
        inc: Any,
        skipFinish: bool = False,  # noqa: FBT001, FBT002
        has_exclusive_flag: bool = False,  # noqa: FBT001, FBT002
    ) -> Any:
        sender = None
        while inc.receivedAllData():
            frame, extra = inc._rData.take()  # noqa: SLF001
            sender = self._deliver(inc.socket, frame) if frame.kind is FrameKind.MESSAGE else None
            if sender is None:
                inc.close()
                return None
            inc.fromAddress = sender
            inc._rData = FrameBuffer(self._seal)  # noqa: SLF001
            try:
                inc.addData(extra)
            except FrameError as error:
                thesplog("%s", error)
                inc.close()
                return None
        if sender is None or not inc._rData.is_empty():  # noqa: SLF001
            return inc
        return None if skipFinish else self._finishIncoming(inc, sender)

    def _deliver(self, connection: socket.socket, frame: Frame) -> Any:
        """Put the message of a verified frame into the mailbox and answer for it; its sender, None if unreadable."""
        try:
            sender, message = pickle.loads(frame.body)
        except Exception as error:  # noqa: BLE001 - unpickling may raise anything
            self._answer(connection, FrameKind.UNREADABLE, frame)
            self._note(f"a message could not be read: {type(error).__name__}: {error}")
            return None
        self._answer(connection, FrameKind.ACCEPTED, frame)
        if self._seen.is_new(frame):
            self._processReceivedEnvelope(ReceiveEnvelope(sender, message))
        return sender

    def _answer(self, connection: socket.socket, kind: FrameKind, frame: Frame) -> None:
        # A sender that is gone, or does not listen, gets no answer; if it lives, it sends again.
        with contextlib.suppress(OSError):
            connection.send(self._seal.seal(kind, frame.sender, frame.sequence))

    def _note(self, text: str) -> None:
        """Write to the log of Thespian's internals and of the run; `logging` could send messages while we receive."""
        thesplog("%s", text)
        if not self._is_outside:
            with contextlib.suppress(OSError):
                os.write(2, f"process {os.getpid()}: {text}\n".encode())


def _close(connection: socket.socket | None) -> None:
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.close()
