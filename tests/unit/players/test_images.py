"""Compressed images become numbers in the announced shape, and oversized or broken ones are refused unread."""

import io
import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from runtime.errors import PlayerContentError
from runtime.experience.brains import ActionSpec, BrainName, BrainParameters, ObservationSpec
from runtime.players.codec import Known, decode_reply
from runtime.players.guards import Guard
from runtime.players.images import decode_image, is_channels_last
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


def test_pixels_come_as_bytes_with_their_channels_first() -> None:
    pixels = picture(1)
    decoded = decode_image(png(pixels), (3, 4, 6))
    assert decoded.dtype == np.uint8
    assert np.array_equal(decoded, pixels.transpose(2, 0, 1))


def test_one_channel_is_the_mean_of_the_picture_to_the_nearest_byte() -> None:
    gray = decode_image(png(picture(2)), (1, 4, 6))
    assert np.abs(gray[0] - picture(2).mean(axis=2)).max() <= 0.5


def test_more_channels_come_from_pictures_back_to_back() -> None:
    both = np.concatenate([picture(1), picture(2)], axis=2).transpose(2, 0, 1)
    assert np.array_equal(decode_image(png(picture(1)) + png(picture(2)), (5, 4, 6)), both[:5])


def test_a_mapping_averages_and_drops_channels() -> None:
    planes = picture(3)
    mapped = decode_image(png(picture(3)), (2, 4, 6), [1, 0, 1])
    assert np.array_equal(mapped[0], planes[:, :, 1])
    assert np.abs(mapped[1] - planes[:, :, [0, 2]].mean(axis=2)).max() <= 0.5
    assert np.array_equal(decode_image(png(picture(3)), (1, 4, 6), [0, -1, -1])[0], planes[:, :, 0])


def test_stacked_pictures_fill_the_channels_that_their_mapping_names() -> None:
    """The mappings that players send for stacks: gray twice, and four channels twice, each padded to whole files."""
    old, new = picture(1), picture(2)
    gray = decode_image(png(old) + png(new), (2, 4, 6), [0, 0, 0, 1, 1, 1])
    assert np.abs(gray - np.stack([old.mean(axis=2), new.mean(axis=2)])).max() <= 0.5
    files = [picture(each) for each in range(4)]
    eight = decode_image(b"".join(map(png, files)), (8, 4, 6), [0, 1, 2, 3, -1, -1, 4, 5, 6, 7, -1, -1])
    expected = np.concatenate([files[0], files[1][:, :, :1], files[2], files[3][:, :, :1]], axis=2)
    assert np.array_equal(eight, expected.transpose(2, 0, 1))


@pytest.mark.parametrize(
    ("shape", "signs", "is_last"),
    [
        ((4, 6, 3), {"picture": png(picture(1)), "package_version": "3.0.0"}, True),
        ((3, 4, 6), {"picture": png(picture(1)), "package_version": "1.0.0"}, False),
        ((3, 3, 3), {"picture": png(picture(1, 3, 3)), "properties": (2, 2, 1), "package_version": "3.0.0"}, True),
        ((3, 3, 3), {"picture": png(picture(1, 3, 3)), "properties": (1, 2, 2)}, False),
        ((3, 4, 6), {"properties": (2, 2, 1), "package_version": "3.0.0"}, True),
        ((8, 8, 8), {"properties": (1, 2, 2), "package_version": "2.3.0-exp.3"}, False),
        ((8, 8, 8), {"properties": (1, 1, 1), "package_version": "2.3.0-exp.3"}, True),
        ((8, 8, 8), {"package_version": "3.0.0-exp.1"}, False),
        ((84, 84, 3), {}, True),
        ((3, 84, 84), {"package_version": "?"}, False),
    ],
)
def test_the_order_of_dimensions_is_told_by_picture_flags_and_package(
    shape: tuple[int, ...], signs: dict[str, Any], *, is_last: bool
) -> None:
    assert is_channels_last(shape, **signs) is is_last


def huge_header() -> bytes:
    header = struct.pack(">IIBBBBB", 50_000, 50_000, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + header
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", len(header)) + chunk + struct.pack(">I", zlib.crc32(chunk))


@pytest.mark.parametrize(
    ("files", "shape", "mapping", "words"),
    [
        (b"GIF89a", (3, 4, 6), [], "not a PNG file"),
        (b"\x89PNG\r\n\x1a\nshort", (3, 4, 6), [], "without a header"),
        (huge_header(), (3, 4, 6), [], "50000×50000 pixels for an observation of shape"),
        (png(picture(1))[:-60], (3, 4, 6), [], "cannot be decoded"),
        (png(picture(1)) * 3, (3, 4, 6), [], "3 pictures"),
        (png(picture(1)) + png(picture(1, 5)), (6, 4, 6), [], "different sizes"),
        (png(picture(1)), (5, 4, 6), [], "3 decoded channels, expected 5"),
        (png(picture(1)), (2, 4, 6), [0, 0, 0], "channel mapping"),
        (png(picture(1)), (1, 4, 6), [0], "channel mapping"),
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
        decode_image(b"\x89PNG\r\n\x1a\n" + body, (3, 4, 6))


def message_with(observation: pb.ObservationProto, shape: tuple[int, ...]) -> pb.UnityMessageProto:
    brain = BrainParameters(BrainName("Bot"), (ObservationSpec(shape),), ActionSpec(1))
    message = pb.UnityMessageProto(header=pb.HeaderProto(status=200))
    message.unity_output.rl_initialization_output.brain_parameters.append(parameters_proto(brain))
    message.unity_output.rl_output.agentInfos["Bot"].value.add(id=4).observations.append(observation)
    return message


@pytest.mark.parametrize("is_last", [True, False])
def test_rows_hold_images_with_their_channels_first_whatever_the_player_sends(*, is_last: bool) -> None:
    pixels = picture(5)
    planes = pixels.transpose(2, 0, 1)
    shape = [4, 6, 3] if is_last else [3, 4, 6]
    compressed = pb.ObservationProto(shape=shape, compression_type=PNG, compressed_data=png(pixels))
    plain = pb.ObservationProto(shape=shape)
    plain.float_data.data.extend(((pixels if is_last else planes).astype(np.float32) / 255).ravel())
    reply, _ = decode_reply(message_with(compressed, tuple(shape)), Known(), Guard(Place(0)))
    (spec,) = reply.brains[0].observation_specs
    assert (spec.shape, spec.dtype) == ((3, 4, 6), "uint8")
    (image,) = reply.infos["Bot"].visual_observations
    assert image.dtype == np.uint8
    assert np.array_equal(image, planes[None])
    reply, _ = decode_reply(message_with(plain, tuple(shape)), Known(), Guard(Place(0)))
    (spec,) = reply.brains[0].observation_specs
    assert (spec.shape, spec.dtype) == ((3, 4, 6), "float32")
    (image,) = reply.infos["Bot"].visual_observations
    assert image.dtype == np.float32
    assert np.array_equal(image, planes[None].astype(np.float32) / 255)


@pytest.mark.parametrize("shape", [[4, 6, 3], [3, 4, 6]])
def test_a_player_may_change_its_mind_about_compression_but_rows_keep_their_kind(shape: list[int]) -> None:
    pixels = picture(5)
    ordered = pixels if shape[2] == 3 else pixels.transpose(2, 0, 1)
    compressed = pb.ObservationProto(shape=shape, compression_type=PNG, compressed_data=png(pixels))
    plain = pb.ObservationProto(shape=shape)
    plain.float_data.data.extend((ordered.astype(np.float32) / 255).ravel())
    for first, then, kind in ((compressed, plain, np.uint8), (plain, compressed, np.float32)):
        _, known = decode_reply(message_with(first, tuple(shape)), Known(), Guard(Place(0)))
        reply, _ = decode_reply(message_with(then, tuple(shape)), known, Guard(Place(0)))
        (image,) = reply.infos["Bot"].visual_observations
        scale = 1 if kind is np.uint8 else 255
        assert image.dtype == kind
        assert np.allclose(image[0] * scale, pixels.transpose(2, 0, 1))


def test_numbers_that_are_no_picture_are_not_made_one() -> None:
    compressed = pb.ObservationProto(shape=[3, 4, 6], compression_type=PNG, compressed_data=png(picture(5)))
    plain = pb.ObservationProto(shape=[3, 4, 6])
    plain.float_data.data.extend([1.5] * 72)
    _, known = decode_reply(message_with(compressed, (3, 4, 6)), Known(), Guard(Place(0)))
    with pytest.raises(PlayerContentError, match=r"agent 4: observation 0 .*numbers from 1.5 to 1.5; expected 0 to 1"):
        decode_reply(message_with(plain, (3, 4, 6)), known, Guard(Place(0)))
    plain.float_data.data[3] = float("nan")
    with pytest.raises(PlayerContentError, match=r"agent 4: observation 0 .*at index \(0, 0, 3\) is nan"):
        decode_reply(message_with(plain, (3, 4, 6)), known, Guard(Place(0)))


@pytest.mark.parametrize(
    ("observation", "words"),
    [
        (pb.ObservationProto(shape=[4, 6, 3], compression_type=PNG, compressed_data=b"x"), "not a PNG file"),
        (
            pb.ObservationProto(
                shape=[4, 6, 3], compression_type=PNG, compressed_data=b"\x89PNG\r\n\x1a\n" + bytes(30)
            ),
            "without a header",
        ),
        (pb.ObservationProto(shape=[4], compression_type=PNG, compressed_data=b"x"), "only images may be PNG files"),
        (pb.ObservationProto(shape=[4, 6, 3], compressed_data=b"x"), "compressed data of type 0"),
    ],
)
def test_a_bad_picture_is_named_with_its_agent(observation: pb.ObservationProto, words: str) -> None:
    with pytest.raises(PlayerContentError, match=f"environment 7 .*agent 4: observation 0 .*{words}"):
        decode_reply(message_with(observation, tuple(observation.shape)), Known(), Guard(Place(7)))
