"""The side channels that every ML-Agents player has, as objects for users of `UnityEnvironment` and of factories."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from google.protobuf.any_pb2 import Any as AnyMessage

from runtime.errors import PlayerProtocolError, UsageError
from runtime.experience.parameters import GaussianDraw, MultiRangeDraw, ParameterValue, UniformDraw
from runtime.experience.stats import StatAggregation
from runtime.players.channels import IncomingMessage, OutgoingMessage, SideChannel
from runtime.players.side_channels import (
    ENGINE_CONFIGURATION,
    ENVIRONMENT_PARAMETERS,
    FLOAT_PROPERTIES,
    STATS,
    TRAINING_ANALYTICS,
    environment_parameter,
)
from runtime.players.wire import communicator_pb2 as pb

EnvironmentStats = Mapping[str, list[tuple[float, StatAggregation]]]
StatsAggregationMethod = StatAggregation
KEPT_MAX = 10_000
"""Messages, statistics or properties of a player that one channel keeps."""
_TYPE_URL = "type.googleapis.com/communicator_objects."


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """All settings of a player's engine at once; sizes in pixels, -1: no limit of the frame rate."""

    width: int = 80
    height: int = 80
    quality_level: int = 1
    time_scale: float = 20.0
    target_frame_rate: int = -1
    capture_frame_rate: int = 60

    @staticmethod
    def default_config() -> EngineConfig:
        """Small, fast and plain, as for training."""
        return EngineConfig()


class _ToPlayer(SideChannel):
    """A channel on which players say nothing."""

    def on_message_received(self, msg: IncomingMessage) -> None:
        """Raises PlayerProtocolError."""
        raise PlayerProtocolError(
            f"the player sent {len(msg.get_raw_bytes())} bytes on {type(self).__name__}; expected none: it is for us."
        )


class EngineConfigurationChannel(_ToPlayer):
    """Settings of the player's engine; they hold until others come."""

    def __init__(self) -> None:
        super().__init__(ENGINE_CONFIGURATION)

    def set_configuration_parameters(
        self,
        width: int | None = None,
        height: int | None = None,
        quality_level: int | None = None,
        time_scale: float | None = None,
        target_frame_rate: int | None = None,
        *,
        capture_frame_rate: int | None = None,
    ) -> None:
        """Queues those that are given. Raises UsageError for a width without a height, or the other way round."""
        if (width is None) != (height is None):
            raise UsageError(f"a screen of width {width} and height {height}; give both or none.")
        if width is not None and height is not None:
            self._queue(0, width, height)
        if quality_level is not None:
            self._queue(1, quality_level)
        if time_scale is not None:
            message = OutgoingMessage()
            message.write_int32(2)
            message.write_float32(time_scale)
            self.queue_message_to_send(message)
        if target_frame_rate is not None:
            self._queue(3, target_frame_rate)
        if capture_frame_rate is not None:
            self._queue(4, capture_frame_rate)

    def set_configuration(self, config: EngineConfig) -> None:
        """Queues all settings of `config`."""
        self.set_configuration_parameters(
            config.width,
            config.height,
            config.quality_level,
            config.time_scale,
            config.target_frame_rate,
            capture_frame_rate=config.capture_frame_rate,
        )

    def _queue(self, *numbers: int) -> None:
        message = OutgoingMessage()
        for number in numbers:
            message.write_int32(number)
        self.queue_message_to_send(message)


class EnvironmentParametersChannel(_ToPlayer):
    """Parameters of the world: numbers, or samplers from which the player draws."""

    def __init__(self) -> None:
        super().__init__(ENVIRONMENT_PARAMETERS)

    def set_float_parameter(self, key: str, value: float) -> None:
        """Queues a number."""
        self._set(key, value)

    def set_uniform_sampler_parameters(self, key: str, min_value: float, max_value: float, seed: int) -> None:
        """Queues a sampler: evenly between two values."""
        self._set(key, UniformDraw(min_value=min_value, max_value=max_value, seed=seed))

    def set_gaussian_sampler_parameters(self, key: str, mean: float, st_dev: float, seed: int) -> None:
        """Queues a sampler: a normal distribution."""
        self._set(key, GaussianDraw(mean=mean, st_dev=st_dev, seed=seed))

    def set_multirangeuniform_sampler_parameters(
        self, key: str, intervals: Sequence[tuple[float, float]], seed: int
    ) -> None:
        """Queues a sampler: evenly over several intervals."""
        self._set(key, MultiRangeDraw(intervals=tuple((low, high) for low, high in intervals), seed=seed))

    def _set(self, key: str, value: ParameterValue) -> None:
        message = OutgoingMessage()
        message.set_raw_bytes(environment_parameter(key, value))
        self.queue_message_to_send(message)


class FloatPropertiesChannel(SideChannel):
    """Named numbers that both sides may set; each keeps what it was told last."""

    def __init__(self, channel_id: UUID | None = None) -> None:
        super().__init__(channel_id or FLOAT_PROPERTIES)
        self._properties: dict[str, float] = {}

    def on_message_received(self, msg: IncomingMessage) -> None:
        """Takes a number from the player, unless KEPT_MAX others are there already."""
        name, value = msg.read_string(), msg.read_float32()
        if name in self._properties or len(self._properties) < KEPT_MAX:
            self._properties[name] = value

    def set_property(self, key: str, value: float) -> None:
        """Sets a number here and, with the next exchange, at the player."""
        message = OutgoingMessage()
        message.write_string(key)
        message.write_float32(value)
        self.queue_message_to_send(message)
        self._properties[key] = value

    def get_property(self, key: str) -> float | None:
        """The number of this name, None when nobody has set it."""
        return self._properties.get(key)

    def list_properties(self) -> list[str]:
        """The names that were set."""
        return list(self._properties)

    def get_property_dict_copy(self) -> dict[str, float]:
        """All numbers by name."""
        return dict(self._properties)


class RawBytesChannel(SideChannel):
    """Bytes of the user's own, in both directions."""

    def __init__(self, channel_id: UUID) -> None:
        super().__init__(channel_id)
        self._received: deque[bytes] = deque(maxlen=KEPT_MAX)

    def on_message_received(self, msg: IncomingMessage) -> None:
        """Keeps the bytes; of a flood the newest KEPT_MAX messages."""
        self._received.append(msg.get_raw_bytes())

    def get_and_clear_received_messages(self) -> list[bytes]:
        """What came since the last call."""
        received = list(self._received)
        self._received.clear()
        return received

    def send_raw_data(self, data: bytes | bytearray) -> None:
        """Queues the bytes as one message."""
        message = OutgoingMessage()
        message.set_raw_bytes(data)
        self.queue_message_to_send(message)


class StatsSideChannel(SideChannel):
    """Statistics of the player. Runs take them by themselves; this is for code that has no run."""

    def __init__(self) -> None:
        super().__init__(STATS)
        self._stats: dict[str, list[tuple[float, StatAggregation]]] = defaultdict(list)
        self._count = 0

    def on_message_received(self, msg: IncomingMessage) -> None:
        """Keeps one value, unless KEPT_MAX wait already."""
        name, value, number = msg.read_string(), msg.read_float32(), msg.read_int32()
        if self._count < KEPT_MAX and number in set(StatAggregation):
            self._stats[name].append((value, StatAggregation(number)))
            self._count += 1

    def get_and_reset_stats(self) -> EnvironmentStats:
        """Values by name, in order, since the last call."""
        stats, self._stats, self._count = dict(self._stats), defaultdict(list), 0
        return stats


class TrainingAnalyticsSideChannel(_ToPlayer):
    """What a player may report to its maker about a training. Nothing is sent unless the user calls one of these."""

    def __init__(self) -> None:
        super().__init__(TRAINING_ANALYTICS)

    def environment_initialized(self, told: pb.TrainingEnvironmentInitialized) -> None:
        """Queues a description of the installation and the run."""
        self._queue("TrainingEnvironmentInitialized", told.SerializeToString())

    def behavior_initialized(self, told: pb.TrainingBehaviorInitialized) -> None:
        """Queues a description of how one behavior is trained."""
        self._queue("TrainingBehaviorInitialized", told.SerializeToString())

    def _queue(self, name: str, value: bytes) -> None:
        message = OutgoingMessage()
        message.set_raw_bytes(AnyMessage(type_url=_TYPE_URL + name, value=value).SerializeToString())
        self.queue_message_to_send(message)
