"""Compressed images become numbers in the announced shape, and oversized or broken ones are refused unread."""

import io
import struct
import zlib

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from runtime.errors import PlayerContentError
from runtime.experience.brains import ActionSpec, BrainName, BrainParameters, ObservationSpec
from runtime.players.codec import Known, decode_reply
from runtime.players.images import decode_image
from runtime.players.places import Place
from runtime.players.wire import communicator_pb2 as pb
from tests.support.player_messages import parameters_proto

PNG = pb.CompressionTypeProto.PNG
Pixels = npt.NDArray[np.uint8]


def png(pixels: Pixels) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format="PNG")
    return file.getvalue()


def picture(seed: int, height: int = 4, width: int = 6) -> Pixels:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def test_channels_come_first_or_last_as_announced() -> None:
    pixels = picture(1)
    expected = pixels.astype(np.float32) / 255
    assert np.array_equal(decode_image(png(pixels), (4, 6, 3)), expected)
    assert np.array_equal(decode_image(png(pixels), (3, 4, 6)), expected.transpose(2, 0, 1))


def test_one_channel_is_the_mean_of_the_picture() -> None:
    gray = decode_image(png(picture(2)), (1, 4, 6))
    assert np.allclose(gray[0], picture(2).mean(axis=2) / 255, atol=1e-6)


def test_more_channels_come_from_pictures_back_to_back() -> None:
    both = np.concatenate([picture(1), picture(2)], axis=2).astype(np.float32) / 255
    assert np.array_equal(decode_image(png(picture(1)) + png(picture(2)), (4, 6, 5)), both[:, :, :5])


def test_a_mapping_averages_and_drops_channels() -> None:
    planes = picture(3).astype(np.float32) / 255
    mapped = decode_image(png(picture(3)), (4, 6, 2), [1, 0, 1])
    assert np.allclose(mapped[:, :, 0], planes[:, :, 1])
    assert np.allclose(mapped[:, :, 1], planes[:, :, [0, 2]].mean(axis=2))
    assert np.allclose(decode_image(png(picture(3)), (4, 6, 1), [0, -1, -1])[:, :, 0], planes[:, :, 0])


def huge_header() -> bytes:
    header = struct.pack(">IIBBBBB", 50_000, 50_000, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + header
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", len(header)) + chunk + struct.pack(">I", zlib.crc32(chunk))


@pytest.mark.parametrize(
    ("files", "shape", "mapping", "words"),
    [
        (b"GIF89a", (4, 6, 3), [], "not a PNG file"),
        (b"\x89PNG\r\n\x1a\nshort", (4, 6, 3), [], "without a header"),
        (huge_header(), (4, 6, 3), [], "50000×50000 pixels for an observation of shape"),
        (png(picture(1))[:-60], (4, 6, 3), [], "cannot be decoded"),
        (png(picture(1)) * 3, (4, 6, 3), [], "3 pictures"),
        (png(picture(1)) + png(picture(1, 5)), (4, 6, 6), [], "different sizes"),
        (png(picture(1)), (4, 6, 5), [], "3 decoded channels, expected 5"),
        (png(picture(1)), (4, 6, 2), [0, 0, 0], "channel mapping"),
        (png(picture(1)), (4, 6, 1), [0], "channel mapping"),
    ],
)
def test_pictures_that_do_not_fit_are_refused(
    files: bytes, shape: tuple[int, ...], mapping: list[int], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        decode_image(files, shape, mapping)


@given(st.binary(max_size=120))
def test_any_bytes_are_refused_with_a_value_error(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"PNG file|pixels"):
        decode_image(b"\x89PNG\r\n\x1a\n" + body, (4, 6, 3))


def message_with(observation: pb.ObservationProto, shape: tuple[int, ...]) -> pb.UnityMessageProto:
    brain = BrainParameters(BrainName("Bot"), (ObservationSpec(shape),), ActionSpec(1))
    message = pb.UnityMessageProto(header=pb.HeaderProto(status=200))
    message.unity_output.rl_initialization_output.brain_parameters.append(parameters_proto(brain))
    message.unity_output.rl_output.agentInfos["Bot"].value.add(id=4).observations.append(observation)
    return message


def test_rows_hold_decoded_and_uncompressed_images_alike() -> None:
    planes = picture(5).astype(np.float32) / 255
    compressed = pb.ObservationProto(shape=[4, 6, 3], compression_type=PNG, compressed_data=png(picture(5)))
    plain = pb.ObservationProto(shape=[4, 6, 3])
    plain.float_data.data.extend(planes.ravel())
    for observation in (compressed, plain):
        reply, _ = decode_reply(message_with(observation, (4, 6, 3)), Known(), Place(0))
        assert np.array_equal(reply.infos["Bot"].visual_observations[0], planes[None])


@pytest.mark.parametrize(
    ("observation", "words"),
    [
        (pb.ObservationProto(shape=[4, 6, 3], compression_type=PNG, compressed_data=b"x"), "not a PNG file"),
        (pb.ObservationProto(shape=[4], compression_type=PNG, compressed_data=b"x"), "only images may be PNG files"),
        (pb.ObservationProto(shape=[4, 6, 3], compressed_data=b"x"), "compressed data of type 0"),
    ],
)
def test_a_bad_picture_is_named_with_its_agent(observation: pb.ObservationProto, words: str) -> None:
    with pytest.raises(PlayerContentError, match=f"environment 7 .*agent 4: observation 0 .*{words}"):
        decode_reply(message_with(observation, tuple(observation.shape)), Known(), Place(7))
