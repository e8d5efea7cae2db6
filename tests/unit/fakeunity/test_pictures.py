"""Pictures: the PNG files are what was painted, stacked and uncompressed observations are made of the same pictures."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from fakeunity.formats import Format
from fakeunity.png import png
from fakeunity.protocols import PROTOCOLS
from fakeunity.row_writer import RowWriter
from fakeunity.rows import BehaviorSpec, ImageSpec, ObservationSpec, Pixels, Rows
from fakeunity.scenes.gridworld import CELLS, paint
from fakeunity.sensors import NO_PICTURE, Camera
from runtime.players.wire import communicator_pb2 as pb
from tests.support.driving import random_choice
from tests.support.scripted import actions, cells_of
from tests.unit.fakeunity.opening import started

SIGNATURE = bytes.fromhex("89504e470d0a1a0a")
HEIGHT, WIDTH = 4, 6


def plain(number: int) -> Pixels:
    """A small picture that shows its number."""
    return np.full((HEIGHT, WIDTH, 3), (number % 256, number // 256, 7), np.uint8)


def spec_of(*names: str, frames: int = 1) -> BehaviorSpec:
    images = tuple(ImageSpec(name, HEIGHT, WIDTH, plain, frames) for name in names)
    return BehaviorSpec("B", (ObservationSpec("M", 2),), images=images)


def decoded(file: bytes) -> Pixels:
    return np.asarray(Image.open(io.BytesIO(file)))


@given(arrays.arrays(np.uint8, st.tuples(st.integers(1, 20), st.integers(1, 20), st.just(3))))
def test_a_png_reads_back_as_its_pixels(pixels: Pixels) -> None:
    file = png(pixels)
    assert file.startswith(SIGNATURE)
    assert (decoded(file) == pixels).all()


@given(st.integers(0, CELLS**3 - 1))
def test_gridworld_paints_what_its_number_says(number: int) -> None:
    (rest, cross), pixels = divmod(number, CELLS), paint(number)
    agent, plus = divmod(rest, CELLS)
    assert pixels.shape == (84, 84, 3)
    if len({agent, plus, cross}) == 3:
        expected = {"agent": divmod(agent, 5), "plus": divmod(plus, 5), "cross": divmod(cross, 5)}
        assert cells_of(png(pixels)) == expected


def rows_of(images: list[list[int]], ids: list[int] | None = None) -> Rows:
    count = len(images[0])
    return Rows(
        np.array(ids or range(count)),
        np.arange(count, dtype=np.float32),
        np.zeros(count, np.bool_),
        np.zeros(count, np.bool_),
        (np.arange(2 * count, dtype=np.float32).reshape(count, 2),),
        images=tuple(np.array(numbers) for numbers in images),
    )


@given(
    ids=st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=5),
    numbers=st.lists(st.integers(0, 500), min_size=10, max_size=10),
    names=st.permutations(["A", "Z"]),
)
def test_rows_with_pictures_are_written_as_protobuf_would_write_them(
    ids: list[int], numbers: list[int], names: list[str]
) -> None:
    count = len(ids)
    rows = rows_of([numbers[:count], numbers[5 : 5 + count]], ids)
    infos = pb.UnityRLOutputProto.ListAgentInfoProto()
    for n in range(count):
        info = infos.value.add(id=ids[n], reward=float(n))
        shown = {name: png(plain(numbers[n + 5 * at])) for at, name in enumerate(names)}
        for name in ("A", "M", "Z"):
            if name == "M":
                info.observations.add(name="M", shape=[2], dimension_properties=[1]).float_data.data.extend(
                    [2 * n, 2 * n + 1]
                )
            else:
                info.observations.add(
                    name=name,
                    shape=[3, HEIGHT, WIDTH],
                    compression_type=pb.PNG,
                    compressed_data=shown[name],
                    dimension_properties=[1, 2, 2],
                )
    assert RowWriter(spec_of(*names)).write(rows) == infos.SerializeToString(deterministic=True)


def observation(frames: tuple[int, ...], format_: Format) -> pb.ObservationProto:
    camera = Camera(ImageSpec("C", HEIGHT, WIDTH, plain, len(frames)), format_)
    return pb.ObservationProto.FromString(camera.observation(frames))


def test_stacked_pictures_are_png_files_back_to_back_and_black_where_there_is_none_yet() -> None:
    seen = observation((NO_PICTURE, 5, 300), Format())
    files = [SIGNATURE + part for part in seen.compressed_data.split(SIGNATURE)[1:]]
    expected = [np.zeros((HEIGHT, WIDTH, 3), np.uint8), plain(5), plain(300)]
    assert len(files) == 3
    assert all((decoded(file) == pixels).all() for file, pixels in zip(files, expected, strict=True))
    assert list(seen.compressed_channel_mapping) == list(range(9))


@pytest.mark.parametrize(
    ("version", "is_compressed", "has_mapping"),
    [("1.0.0", False, False), ("1.1.0", True, False), ("1.2.0", True, True)],
)
def test_stacked_pictures_are_compressed_only_for_those_who_look_for_several_files(
    version: str, *, is_compressed: bool, has_mapping: bool
) -> None:
    protocol = PROTOCOLS[version]
    seen = observation((1, 2), Format(protocol, channels_first=False, shared=frozenset(protocol.capabilities())))
    assert (seen.compression_type == pb.PNG) is is_compressed
    assert bool(seen.compressed_channel_mapping) is has_mapping
    assert list(seen.shape) == [HEIGHT, WIDTH, 6]


@pytest.mark.parametrize("channels_first", [True, False])
def test_uncompressed_pictures_are_numbers_from_0_to_1_in_the_order_of_their_shape(*, channels_first: bool) -> None:
    format_ = Format(channels_first=channels_first, shared=frozenset())
    seen = observation((3, 258), format_)
    numbers = np.array(seen.float_data.data, np.float32).reshape(list(seen.shape))
    last = numbers.transpose(1, 2, 0) if channels_first else numbers
    assert last.shape == (HEIGHT, WIDTH, 6)
    assert (last == np.concatenate((plain(3), plain(258)), axis=2) / np.float32(255)).all()


def test_stacking_shows_the_last_messages_of_the_episode_only() -> None:
    driver = started("gridworld?agents=1&stack=2", random_choice(3), seed=3)
    before: bytes | None = None
    for _ in range(300):
        ended = driver.count.episodes
        driver.step()
        (info,) = driver.waiting["GridWorld"]
        camera = next(o for o in info.observations if len(o.shape) == 3)
        older, newer = (SIGNATURE + part for part in camera.compressed_data.split(SIGNATURE)[1:])
        if driver.count.episodes > ended or before is None:
            assert before is None or not decoded(older).any()
        else:
            assert older == before
        before = newer
    assert driver.count.episodes > 3


def test_each_picture_is_compressed_once() -> None:
    painted: list[int] = []

    def paint_and_count(number: int) -> Pixels:
        painted.append(number)
        return plain(number)

    spec = BehaviorSpec("B", (ObservationSpec("M", 2),), images=(ImageSpec("C", HEIGHT, WIDTH, paint_and_count),))
    writer = RowWriter(spec)
    for _ in range(3):
        writer.write(rows_of([[1, 2, 1]]))
    assert painted == [1, 2]


def test_masks_of_the_walls_follow_the_parameter() -> None:
    key, number = b"mask_walls", bytes.fromhex("000000000000803f")
    payload = len(key).to_bytes(4, "little") + key + number
    channel = bytes.fromhex("1e894c530f81ea11a9d0822485860400") + len(payload).to_bytes(4, "little") + payload

    def choose(_parameters: pb.BrainParametersProto, info: pb.AgentInfoProto) -> pb.AgentActionProto:
        return actions(discrete=[list(info.action_mask).index(False, 1) if info.action_mask else 0])

    driver = started("gridworld?agents=40", choose)
    assert not any(info.action_mask for info in driver.waiting["GridWorld"])
    driver.reset(channel)
    for _ in range(30):
        for info in driver.waiting["GridWorld"]:
            row, column = cells_of(info.observations[0].compressed_data)["agent"]
            assert list(info.action_mask) == [False, row == 0, row == 4, column == 0, column == 4]
        driver.step()
