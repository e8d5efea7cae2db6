"""A player that behaves badly on request: `python -m tests.support.scripted_player --mlagents-port N --do exit@3:9`.

Its world is one agent of brain `Bot` with two numbers, the exchange's number and 0.5, and one continuous action. Each
`--do WHAT@EXCHANGE[:VALUE]` happens instead of that exchange; number 1 is the reply to the first reset.

exit: ends with this code. kill: ends by this signal. hang: stays alive and silent. say: sends these bytes (hex).
close: sends status 400. refuse: sends status 422. drop: cuts the connection and stays alive.
nan: an observation that is not finite.
late@0:S: answers the handshake after S seconds. version@0:V: introduces itself with version V. print@0:TEXT: prints it.
fork@0: leaves a child of its own behind, whose pid it prints. gen1@0: calls the service of the first generation.
`--host ADDRESS` is where it finds the trainer.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import grpc

from runtime.players.versions import EXCHANGE_PATH, EXCHANGE_PATH_GEN1
from runtime.players.wire import communicator_pb2 as pb
from tests.support.player_messages import Agent, Moment, introduction_message, output_message, simple_brain

BRAIN = simple_brain("Bot")
READY = pb.UnityMessageProto(header=pb.HeaderProto(status=200)).SerializeToString()
REFUSING = pb.UnityMessageProto(header=pb.HeaderProto(status=422)).SerializeToString()
CLOSING = pb.UnityMessageProto(header=pb.HeaderProto(status=400)).SerializeToString()


@dataclass(frozen=True, slots=True)
class Deed:
    """What to do, at which exchange, and how."""

    what: str
    exchange: int
    value: str


def main(arguments: Sequence[str]) -> int:
    """Plays until it is told to stop; returns the exit code."""
    port = int(arguments[arguments.index("--mlagents-port") + 1])
    host = arguments[arguments.index("--host") + 1] if "--host" in arguments else "localhost"
    deeds = [parse_deed(arguments[at + 1]) for at, word in enumerate(arguments) if word == "--do"]
    at_start = {deed.what: deed.value for deed in deeds if deed.exchange == 0}
    before_connecting(at_start)
    channel = grpc.insecure_channel(f"{host}:{port}", options=(("grpc.enable_http_proxy", 0),))
    exchange = channel.unary_unary(EXCHANGE_PATH_GEN1 if "gen1" in at_start else EXCHANGE_PATH)
    try:
        play(exchange, {deed.exchange: deed for deed in deeds}, at_start.get("version", "1.5.0"), channel.close)
    except grpc.RpcError as error:
        sys.stderr.write(f"the trainer is gone: {error.code().name}\n")
    return 0


def parse_deed(text: str) -> Deed:
    """The deed that `WHAT@EXCHANGE[:VALUE]` means."""
    what, _, rest = text.partition("@")
    exchange, _, value = rest.partition(":")
    return Deed(what, int(exchange), value)


def before_connecting(at_start: Mapping[str, str]) -> None:
    """What happens before the first call."""
    if "print" in at_start:
        sys.stdout.write(at_start["print"] + "\n")
        sys.stdout.flush()
    if "fork" in at_start:
        child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
        sys.stdout.write(f"child {child.pid}\n")
        sys.stdout.flush()
    if "late" in at_start:
        threading.Event().wait(float(at_start["late"]))


def play(exchange: Callable[..., bytes], deeds: Mapping[int, Deed], version: str, cut: Callable[[], None]) -> None:
    """The handshake, then one exchange after the other."""
    exchange(introduction_message(version).SerializeToString(), wait_for_ready=True)
    reply, count = exchange(READY), 0
    while pb.UnityMessageProto.FromString(reply).header.status == 200:
        count += 1
        deed = deeds.get(count, Deed("answer", count, ""))
        reply = exchange(answer(deed, cut))


def answer(deed: Deed, cut: Callable[[], None]) -> bytes:
    """The next call's body, if the deed lets it come to that."""
    match deed.what:
        case "exit":
            os._exit(int(deed.value))
        case "kill":
            os.kill(os.getpid(), int(deed.value))
        case "hang":
            signal.pause()
        case "drop":
            cut()
            signal.pause()
        case "close":
            return CLOSING
        case "refuse":
            return REFUSING
        case "say":
            return bytes.fromhex(deed.value)
    second = float("nan") if deed.what == "nan" else 0.5
    agent = Agent(id=3, observations=((float(deed.exchange), second),), reward=1.0)
    announced = [BRAIN] if deed.exchange == 1 else []
    return output_message([Moment(BRAIN, (agent,))], announced=announced).SerializeToString()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
