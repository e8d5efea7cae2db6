"""What is fuzzed: functions of any bytes that may raise the declared error and nothing else, with bytes to begin with.

A target returns normally for bytes that it takes, and raises what it declares for others. Everything else is a finding.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from runtime.errors import DemonstrationError, PlayerDiedError, PlayerError, PlayerProtocolError, VersionMismatchError
from runtime.experience.brains import ActionSpec, BrainName, BrainParameters, ObservationSpec
from runtime.players import codec, codec_gen1
from runtime.players.builtin_channels import FloatPropertiesChannel, StatsSideChannel
from runtime.players.channel_hub import SideChannelHub
from runtime.players.demonstration_recorder import picture_bytes
from runtime.players.demonstrations import read_demonstration
from runtime.players.dialects import Reading, generation_of, meet
from runtime.players.guards import Guard
from runtime.players.images import decode_image
from runtime.players.places import Place
from runtime.players.side_channels import FLOAT_PROPERTIES, STATS, container
from runtime.players.wire import communicator_pb2 as pb
from tests.support import player_messages, scripted_gen1
from tests.support.player_messages import Moment, simple_agent
from tests.unit.players.test_codec_gen1 import at, seen
from tests.unit.players.test_demonstrations import eye, pieces

PLACE = Place(1)
IMAGE = ObservationSpec((3, 4, 6), (1, 2, 2), 0, "eye")
BRAIN = BrainParameters(BrainName("Bot"), (ObservationSpec((2,), (1,), 0, "v"),), ActionSpec(1, (2, 3)))
DECODED_BYTES_MAX = 1 << 22


@dataclass(frozen=True, slots=True)
class Target:
    """One fuzzed function. errors: what it may raise. seeds: bytes that it takes."""

    run: Callable[[bytes], None]
    errors: tuple[type[Exception], ...]
    seeds: tuple[bytes, ...]


def _gen2_messages() -> tuple[bytes, ...]:
    moment = Moment(BRAIN, (simple_agent(BRAIN, 3), simple_agent(BRAIN, 4)))
    picture = player_messages.output_message([], announced=[player_messages.simple_brain("Eye")])
    observation = picture.unity_output.rl_output.agentInfos["Eye"].value.add(id=1).observations.add(shape=IMAGE.shape)
    observation.compression_type = pb.CompressionTypeProto.PNG
    observation.compressed_data = picture_bytes(eye(1)[0])
    observation.compressed_channel_mapping.extend([0, 1, 2])
    return (
        player_messages.output_message([moment], announced=[BRAIN], side_channel=_blob()).SerializeToString(),
        player_messages.output_message([moment]).SerializeToString(),
        picture.SerializeToString(),
    )


def _blob() -> bytes:
    stat = b"\x01\x00\x00\x00x" + b"\x00\x00\x80?" + b"\x01\x00\x00\x00"
    return container(STATS, stat) + container(FLOAT_PROPERTIES, stat[:9])


_KNOWN = codec.decode_reply(
    player_messages.output_message([Moment(BRAIN, (simple_agent(BRAIN),))], announced=[BRAIN]),
    codec.Known(),
    Guard(PLACE),
)[1]


def _read_gen2(body: bytes) -> None:
    known = _KNOWN
    for _ in range(2):
        _, known = codec.decode_reply(codec.parse_message(body, PLACE), known, Guard(PLACE))


_SEEN = seen([at(1, 1.0), at(2, 2.0)])


def _read_gen1(body: bytes) -> None:
    known = _SEEN
    for is_first in (False, True):
        message = codec_gen1.parse_message(body, PLACE)
        _, known = codec_gen1.decode_reply(message, known, Guard(PLACE), is_first=is_first, watches=True)


def _gen1_messages() -> tuple[bytes, ...]:
    listed = [at(1, 1.0, reward=1.0, done=True), at(2, 3.0)]
    return (scripted_gen1.output_message({"Bot": listed}, global_done=True).SerializeToString(),)


def _meet(body: bytes) -> None:
    for generation in (generation_of(body, PLACE), 1, 2):
        try:
            meet(body, 1 if generation == 1 else 2, PLACE, reading=Reading(), answering=(1, 1), pid=0)
        except (PlayerProtocolError, VersionMismatchError, PlayerDiedError):
            continue


def _hear_channels(body: bytes) -> None:
    hub = SideChannelHub([FloatPropertiesChannel(), StatsSideChannel()])
    hub.deliver(hub.read(body, PLACE), PLACE)


def _read_file(body: bytes) -> None:
    with tempfile.NamedTemporaryFile(suffix=".demo") as file:
        file.write(body)
        file.flush()
        read_demonstration(Path(file.name), accepts_unfinished=True, decoded_bytes_max=DECODED_BYTES_MAX)


def _decode_picture(body: bytes) -> None:
    decode_image(body, IMAGE.shape)


TARGETS: Mapping[str, Target] = {
    "message": Target(_read_gen2, (PlayerProtocolError,), _gen2_messages()),
    "message_gen1": Target(_read_gen1, (PlayerProtocolError,), _gen1_messages()),
    "introduction": Target(
        _meet,
        (PlayerError,),
        (
            player_messages.introduction_message().SerializeToString(),
            scripted_gen1.introduction_message((scripted_gen1.brain_proto(),)).SerializeToString(),
        ),
    ),
    "side_channel": Target(_hear_channels, (PlayerProtocolError,), (_blob(),)),
    "demonstration": Target(_read_file, (DemonstrationError,), (pieces(),)),
    "picture": Target(_decode_picture, (ValueError,), (picture_bytes(eye(2)[0]),)),
}
