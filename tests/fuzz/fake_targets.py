"""More of what is fuzzed: the bundled player's readers, cassettes, plans of faults, and rows as real scenes tell them.

The bytes to begin with are those of real conversations between bundled players and our side of the protocol.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from fakeunity import side_channels as players_channels
from fakeunity.cassettes.differences import differences, text_of
from fakeunity.cassettes.recorder import Recorder
from fakeunity.cassettes.tape import MAGIC, CassetteError, Message, block_bytes, message_bytes, open_cassette
from fakeunity.errors import SpecError, TrainerMistakeError
from fakeunity.faults.plan import parse_plan
from fakeunity.memory import MemoryPlayer, open_player
from fakeunity.spec import parse_url
from runtime.errors import PlayerError
from runtime.experience.actions import Actions
from runtime.experience.brains import BrainInfo, BrainParameters
from runtime.experience.parameters import MultiRangeDraw, ParameterValue, UniformDraw
from runtime.players.conversation import Conversation
from runtime.players.replies import CLOSING
from runtime.players.side_channels import EngineSettings
from runtime.players.wire import communicator_pb2 as pb
from tests.fuzz.targets import Target
from tests.support.player_links import assignment

SCENES = (
    "hybrid?agents=2",
    "gridworld?agents=1&protocol=1.0.0",
    "buffer?agents=2",
    "pushblock_group",
    "masked?agents=1",
)
SCENES_GEN1 = ("gridworld?agents=1&protocol=API-8", "walljump?agents=2&protocol=API-9", "teacher?protocol=API-10")


@dataclass(frozen=True, slots=True)
class Life:
    """A short conversation: the player's calls, and the trainer's replies to them."""

    calls: tuple[bytes, ...]
    replies: tuple[bytes, ...]


def conversation() -> Conversation:
    """Our side of a new one."""
    talk = Conversation(assignment(port=1), EngineSettings())
    talk.open()
    return talk


def zeros(brains: Mapping[str, BrainParameters], infos: Mapping[str, BrainInfo]) -> dict[str, Actions]:
    """A legal action for everybody who waits."""
    actions = {}
    for name, info in infos.items():
        spec, count = brains[name].action_spec, len(info.decisions)
        discrete = np.zeros((count, spec.discrete_size), np.int32)
        masks, start = info.decisions.action_masks, 0
        for branch, size in enumerate(spec.discrete_branches):
            if masks is not None:
                discrete[:, branch] = masks[:, start : start + size].argmax(axis=1)
            start += size
        actions[name] = Actions(np.zeros((count, spec.continuous_size), np.float32), discrete)
    return actions


@cache
def life(url: str, steps: int = 4) -> Life:
    """A bundled player and us, talking."""
    player, talk = open_player(parse_url(f"fake:{url}")), conversation()
    calls, replies = [player.exchange(None) or b""], []
    hello, answer = talk.meet(calls[0], pid=0)
    brains: dict[str, BrainParameters] = {each.brain_name: each for each in hello.brains}
    for number in itertools.count():
        replies.append(answer)
        calls.append(player.exchange(answer) or b"")
        if number == 0:
            talk.hear_ready(calls[-1])
            answer = talk.reset_order({"size": 1.5}, train_mode=True)
            continue
        reply = talk.accept(calls[-1])
        brains |= {each.brain_name: each for each in reply.brains}
        actions = zeros(brains, reply.infos)
        if number == steps:
            return Life(tuple(calls), tuple(replies))
        answer = talk.step_order(actions)
    raise AssertionError


def rows(urls: Sequence[str]) -> tuple[bytes, ...]:
    """Later calls of these players."""
    return tuple(call for url in urls for call in life(url).calls[2:])


def hear_rows(url: str) -> Callable[[bytes], None]:
    """A call taken for the answer to a reset, and if it is one, for the answer to a step too."""

    def hear(data: bytes) -> None:
        talk = conversation()
        hello, _ = talk.meet(life(url).calls[0], pid=0)
        brains: dict[str, BrainParameters] = {each.brain_name: each for each in hello.brains}
        talk.reset_order({}, train_mode=True)
        reply = talk.accept(data)
        brains |= {each.brain_name: each for each in reply.brains}
        talk.step_order(zeros(brains, reply.infos))
        talk.accept(data)

    return hear


def channel_bytes() -> tuple[bytes, ...]:
    """Side channels of the trainer: engine settings, parameters, samplers."""
    talk = conversation()
    talk.meet(life(SCENES[0]).calls[0], pid=0)
    draws: dict[str, ParameterValue] = {
        "x": 2.0,
        "y": UniformDraw(min_value=0.0, max_value=1.0),
        "z": MultiRangeDraw(intervals=((0, 1), (2, 3))),
    }
    order = talk.reset_order(draws, train_mode=True)
    return (pb.UnityMessageProto.FromString(order).unity_input.rl_input.side_channel, b"")


def obey_channels(data: bytes) -> None:
    """Side channels of a trainer, as the bundled player reads them."""
    for channel, payload in players_channels.messages(data):
        if channel == players_channels.ENVIRONMENT_PARAMETERS:
            players_channels.environment_parameter(payload)


def orders(urls: Sequence[str]) -> tuple[bytes, ...]:
    """What these players were told."""
    return (*(reply for url in urls for reply in life(url).replies), CLOSING)


def obey(url: str) -> Callable[[bytes], None]:
    """A trainer's reply at each phase of a bundled player."""

    def begun(count: int) -> MemoryPlayer:
        player = open_player(parse_url(f"fake:{url}"))
        player.exchange(None)
        for reply in life(url).replies[:count]:
            player.exchange(reply)
        return player

    def play(data: bytes) -> None:
        refusals = 0
        for count in range(3):
            try:
                begun(count).exchange(data)
            except TrainerMistakeError:
                refusals += 1
        if refusals == 3:
            raise TrainerMistakeError("refused at every phase")

    return play


def in_block(data: bytes) -> bytes:
    """A cassette with one block of these bytes, all checksums right, so that they are looked at."""
    return MAGIC + b"generation: 2\n\n" + block_bytes(data)


def blocks() -> tuple[bytes, ...]:
    """Unpacked blocks."""
    short = life(SCENES[0])
    spoken = [Message("player", call) for call in short.calls] + [Message("trainer", reply) for reply in short.replies]
    return (b"".join(map(message_bytes, spoken)), b"".join(map(message_bytes, spoken[:2])))


def in_file(
    read: Callable[[Path], object], *, wrapped: Callable[[bytes], bytes] = lambda data: data
) -> Callable[[bytes], None]:
    """The bytes as the content of a file."""

    def run(data: bytes) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "fuzzed"
            file.write_bytes(wrapped(data))
            read(file)

    return run


def play_cassette(file: Path) -> None:
    """All of a cassette, its messages for people too."""
    cassette = open_cassette(file)
    before = b""
    for message in cassette.messages():
        text_of(message.body, generation=cassette.generation)
        differences(before, message.body, generation=cassette.generation, is_tolerant=True)
        before = message.body


def cassettes() -> tuple[bytes, ...]:
    """Recordings, whole and cut."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for number, url in enumerate((SCENES[0], SCENES_GEN1[1])):
            file = Path(folder) / str(number)
            recorder, short = Recorder(file, {}), life(url)
            for call, reply in zip(short.calls, short.replies, strict=False):
                recorder.on_bytes("player", call)
                recorder.on_bytes("trainer", reply)
            recorder.close()
            content = file.read_bytes()
            found += [content, content[: len(content) * 3 // 4]]
    return tuple(found)


def parse_text(data: bytes) -> None:
    """Bytes as the text of a plan, and back."""
    plan = parse_plan(data.decode("latin-1"))
    if parse_plan(str(plan)) != plan:
        raise AssertionError(f"{plan} is not read as it is written")


def plans() -> tuple[bytes, ...]:
    """Plans of faults."""
    texts = (
        "crash:9@step=17+env=2+once",
        "nan:agent=3:index=2@step=40-;delay:ms=5:sigma=1@reset",
        "garbage@exchange=3",
    )
    return tuple(text.encode() for text in texts)


FAKE_TARGETS: Mapping[str, Target] = {
    "rows": Target(hear_rows(SCENES[0]), (PlayerError,), rows(SCENES)),
    "rows_gen1": Target(hear_rows(SCENES_GEN1[0]), (PlayerError,), rows(SCENES_GEN1)),
    "orders": Target(obey(SCENES[0]), (TrainerMistakeError,), orders(SCENES)),
    "orders_gen1": Target(obey(SCENES_GEN1[1]), (TrainerMistakeError,), orders(SCENES_GEN1)),
    "player_channels": Target(obey_channels, (TrainerMistakeError,), channel_bytes()),
    "cassette": Target(in_file(play_cassette), (CassetteError,), cassettes()),
    "cassette_block": Target(in_file(play_cassette, wrapped=in_block), (CassetteError,), blocks()),
    "fault_plan": Target(parse_text, (SpecError,), plans()),
}
