"""Small actors that the tests of the actor-system base let run."""

import logging
import os
import resource
import tempfile
import threading
import time
from typing import Any

from thespian.actors import Actor, ActorSystemMessage, ChildActorExited

from runtime.actors.hosting import Child, HostedActor, Start


class Echo(HostedActor):
    """Answers each message with its own pid and the message."""

    def receive(self, message: Any, sender: Any) -> None:
        self.send(sender, (os.getpid(), message))


class Slow(Echo):
    """An Echo whose process takes a while to come up, as one that imports TensorFlow does."""

    def __init__(self) -> None:
        threading.Event().wait(0.3)
        super().__init__()


class Mute(HostedActor):
    """Never gets to its Start."""

    def receiveMessage(self, _msg: Any, _sender: Any) -> None:  # noqa: N802
        return


class Plain(Actor):
    """An actor without our base class, as another program would write it."""

    def receiveMessage(self, msg: Any, sender: Any) -> None:  # noqa: N802
        if not isinstance(msg, ActorSystemMessage):
            self.send(sender, msg)


class PlainParent(Actor):
    """Creates a Slow child and passes on what Thespian says about its end."""

    owner: Any = None

    def receiveMessage(self, msg: Any, sender: Any) -> None:  # noqa: N802
        if isinstance(msg, ChildActorExited):
            self.send(self.owner, "exited")
        elif not isinstance(msg, ActorSystemMessage):
            self.owner = sender
            self.createActor(Slow)
            self.send(sender, self._myRef._child_procs[-1].childProc.pid)


class DiesAtBirth(HostedActor):
    """Its process ends before Thespian has it reported."""

    @staticmethod
    def actorSystemCapabilityCheck(_capabilities: Any, _requirements: Any) -> bool:  # noqa: N802
        return True

    def __init__(self) -> None:
        os._exit(9)


class Parent(HostedActor):
    """Creates children and tells whoever asked last about their ends."""

    def start(self, context: Any) -> None:
        self.owner: Any = None
        self.made: list[Child] = []

    def receive(self, message: Any, sender: Any) -> None:
        match message:
            case ("create", kind):
                self.owner = sender
                self._create(Slow if kind == "slow" else Echo)
            case "create without descriptors":
                self.owner = sender
                tempfile.gettempdir()  # Thespian's log asks for it, and finding it takes descriptors
                limits = resource.getrlimit(resource.RLIMIT_NOFILE)
                resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
                child = self.create(Echo, Start(role="never"))
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
                self.made.append(child)
                self.send(sender, ("created", len(self.made) - 1, child.pid))
            case "log":
                logging.getLogger("samples").warning("worker restarted", extra={"worker": 3, "incarnation": 2})
                self.send(sender, "logged")
            case ("tell", index, what):
                self.send(self.made[index].address, what)
                self.send(sender, "told")
            case ("address", index):
                self.send(sender, self.made[index].address)
            case "pid":
                self.send(sender, os.getpid())
            case _:
                self.send(sender, ("parent", os.getpid(), message))

    def _create(self, kind: type[HostedActor]) -> None:
        child = self.create(kind, Start(role=f"child {len(self.made)}"))
        self.made.append(child)
        self.send(self.owner, ("created", len(self.made) - 1, child.pid))

    def child_exited(self, address: Any) -> None:
        now = time.monotonic()
        index = next(number for number, child in enumerate(self.made) if child.address is address)
        self.send(self.owner, ("exited", index, now))

    def on_failure(self, error: BaseException, message: object) -> None:
        self.send(self.owner, ("failed", type(error).__name__, str(error)))


class Witness(HostedActor):
    """Counts what happens to it: handled messages, failures, timers, posted calls, thread of the callbacks."""

    def start(self, context: Any) -> None:
        self.counts = {"handled": 0, "failures": 0, "timers": 0, "posted": 0, "on_actor_thread": 0}
        self.tokens: list[Any] = []
        self.thread = threading.get_ident()

    def receive(self, message: Any, sender: Any) -> None:
        self.counts["handled"] += 1
        match message:
            case "raise":
                raise ValueError("raised once")
            case "leave":
                raise SystemExit(3)
            case "counts":
                self.counts["handled"] -= 1
                self.send(sender, dict(self.counts))
            case ("timers", delays):
                for token, delay_s in enumerate(delays):
                    self.call_later(delay_s, (token, sender))
            case ("post", number):
                worker = threading.Thread(target=self._post_many, args=(number, sender))
                worker.start()
            case ("pipe", _):
                read, write = os.pipe()
                self.watch_descriptor(read, lambda fd: self.send(sender, os.read(fd, 100)))
                self.send(sender, os.getpid())
                threading.Thread(target=os.write, args=(write, b"through the pipe")).start()
            case "storm":
                self.call_later(0.001, "storm")
            case "unsendable":
                self.send(sender, {"held": [1, threading.Lock()]})
            case _:
                self.send(sender, message)

    def timer(self, token: Any) -> None:
        if token == "storm":
            deadline = time.perf_counter() + 0.002
            while time.perf_counter() < deadline:
                pass
            self.call_later(0.001, "storm")
            return
        self.counts["timers"] += 1
        number, sender = token
        self.send(sender, ("timer", number))

    def _post_many(self, number: int, sender: Any) -> None:
        for index in range(number):
            self.post(lambda index=index: self._posted_one(index, number, sender))  # type: ignore[misc]

    def _posted_one(self, index: int, number: int, sender: Any) -> None:
        self.counts["posted"] += 1
        self.tokens.append(index)
        self.counts["on_actor_thread"] += threading.get_ident() == self.thread
        if len(self.tokens) == number:
            self.send(sender, self.tokens)

    def on_failure(self, error: BaseException, message: object) -> None:
        self.counts["failures"] += 1


class Flood(HostedActor):
    """Sends numbers to a partner while the partner does the same, and checks the order of what arrives."""

    def start(self, context: Any) -> None:
        self.got: list[int] = []
        self.owner: Any = None
        self.expected = 0

    def receive(self, message: Any, sender: Any) -> None:
        match message:
            case ("go", partner, number):
                self.owner, self.expected = sender, number
                for index in range(number):
                    # Every tenth is large, so that a later small one has the chance to overtake it.
                    self.send(partner, ("item", index, b"x" * (200_000 if index % 10 == 0 else 10)))
            case ("item", index, _):
                self.got.append(index)
        if self.owner is not None and len(self.got) == self.expected:
            self.send(self.owner, ("order", self.got))
