"""The player as a gRPC client, as Unity is one: it dials the trainer and calls Exchange until it is told to stop."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from fakeunity.calls import Channel, TrainerGoneError
from fakeunity.errors import ConnectError, TrainerMistakeError
from fakeunity.faults.process import wait_s
from fakeunity.memory import MemoryPlayer
from fakeunity.wire import EXCHANGE_PATH, closing_bytes, refusing_bytes

CLOSING_CALL_S = 1.0


def run(player: MemoryPlayer, port: int, *, connect_s: float, report: Callable[[str], None]) -> None:
    """Plays until the trainer says stop or is gone; both are a normal end.

    A call has no deadline, as the trainer may think for minutes, but the first connection has: `connect_s` seconds.
    Raises ConnectError, or TrainerMistakeError after having told the trainer that the player closes.
    """
    player.connect()
    wait_s(player.fault_delay_s(), time.sleep)
    channel = Channel.dial(port, player.exchange_path, connect_s=connect_s)
    if channel is None:
        raise ConnectError(
            f"nobody serves port {port} on localhost after {connect_s:g} s; start the trainer first, "
            "or give its port with --mlagents-port (--port for API-8 to API-10)"
        )
    with channel:
        report(f"connected to port {port}")
        call = player.exchange(None)
        wait_s(player.fault_delay_s(), time.sleep)
        try:
            while call is not None:
                call = player.exchange(channel.exchange(call))
                wait_s(player.next_delay_s(), time.sleep)
        except TrainerGoneError as error:
            report(f"the trainer is gone: {error}")
        except TrainerMistakeError as error:
            _say_goodbye(channel, refusing_bytes() if error.is_final else closing_bytes())
            raise
        else:
            report("the trainer asked to stop")


def refuse(port: int, *, connect_s: float) -> None:
    """Tells the trainer that there is no player, and that one which is started again would not be there either.

    Says nothing where nobody serves the port within `connect_s` seconds.
    """
    channel = Channel.dial(port, EXCHANGE_PATH, connect_s=connect_s)
    if channel is not None:
        with channel:
            _say_goodbye(channel, refusing_bytes())


def _say_goodbye(channel: Channel, words: bytes) -> None:
    # If nobody listens any more, there is nothing left to say.
    with contextlib.suppress(TrainerGoneError):
        channel.exchange(words, timeout_s=CLOSING_CALL_S)
