"""Where the side channels of one player meet: statistics for the run, messages for the user's channels, and back."""

from __future__ import annotations

import math
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from uuid import UUID

from runtime.errors import EnvironmentFactoryError, PlayerError, UsageError
from runtime.experience.stats import Stat
from runtime.players.channels import IncomingMessage, SideChannel
from runtime.players.places import Place
from runtime.players.side_channels import STATS, container, read_container, read_stat

STATS_KEPT_MAX = 10_000
NAMES_KEPT_MAX = 100

Arrived = tuple[tuple[UUID, bytes, Stat | None], ...]
"""The records of one message: channel, payload, and the statistic in it if it is one."""


class SideChannelHub:
    """Statistics until they are taken, the user's channels, and counts of what nobody reads.

    Raises UsageError for two channels with one id.
    """

    def __init__(self, channels: Sequence[SideChannel] = ()) -> None:
        self._channels = {each.channel_id: each for each in channels}
        if len(self._channels) != len(channels):
            twice = [str(each) for each, count in Counter(c.channel_id for c in channels).items() if count > 1]
            raise UsageError(f"two side channels with the id {twice[0]}; an id belongs to one channel.")
        self._stats: list[Stat] = []
        self._ignored: Counter[str] = Counter()
        self.stats_dropped = 0
        """Statistics beyond STATS_KEPT_MAX, and those that are not finite."""

    @property
    def channels(self) -> tuple[SideChannel, ...]:
        """The user's channels."""
        return tuple(self._channels.values())

    def read(self, body: bytes, place: Place) -> Arrived:
        """The records in the side channel bytes of one message. Raises PlayerProtocolError, and changes nothing."""
        return tuple(
            (channel, payload, read_stat(payload, place) if channel == STATS else None)
            for channel, payload in read_container(body, place)
        )

    def deliver(self, arrived: Arrived, place: Place) -> None:
        """Keeps statistics and hands every other record to its channel.

        Raises EnvironmentFactoryError with what a channel of the user's raised.
        """
        for channel, payload, stat in arrived:
            if stat is not None:
                self._keep(stat)
            reader = self._channels.get(channel)
            if reader is not None:
                self._hand_over(reader, payload, place)
            elif stat is None:
                name = str(channel)
                self._ignored[name if name in self._ignored or len(self._ignored) < NAMES_KEPT_MAX else "others"] += 1

    def take_stats(self) -> tuple[Stat, ...]:
        """The statistics that came since the last call, in order."""
        stats, self._stats = tuple(self._stats), []
        return stats

    def take_outgoing(self) -> bytes:
        """What the user's channels have queued, as records, channel after channel."""
        return b"".join(
            container(channel, payload)
            for channel, each in self._channels.items()
            for payload in each.take_queued_messages()
        )

    @property
    def ignored(self) -> Mapping[str, int]:
        """Messages per channel id that nobody here reads."""
        return dict(self._ignored)

    def _keep(self, stat: Stat) -> None:
        if math.isfinite(stat.value) and len(self._stats) < STATS_KEPT_MAX:
            self._stats.append(stat)
        else:
            self.stats_dropped += 1

    def _hand_over(self, reader: SideChannel, payload: bytes, place: Place) -> None:
        try:
            reader.on_message_received(IncomingMessage(payload))
        except PlayerError:
            raise
        except Exception as error:
            raise EnvironmentFactoryError(
                f"{place.environment}, env step {place.step}: side channel {type(reader).__name__} "
                f"({reader.channel_id}) raised {type(error).__name__}: {error}\n{traceback.format_exc()}",
                env_id=place.env_id,
                incarnation=place.incarnation,
            ) from error
