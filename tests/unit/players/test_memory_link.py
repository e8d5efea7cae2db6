"""A player in memory speaks the same bytes, its delays do not block the loop, and its end is a loss like any other."""

import asyncio
from collections import deque
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import cloudpickle
import pytest

from runtime.errors import (
    EnvironmentFactoryError,
    PlayerDiedError,
    PlayerProtocolError,
    PlayerTimeoutError,
    ShapeError,
    UsageError,
    VersionMismatchError,
)
from runtime.experience.stats import Stat, StatAggregation
from runtime.players.conversation import Conversation
from runtime.players.factories import MemoryPlayerFactory, player_factory
from runtime.players.links import LinkLimits
from runtime.players.memory_link import MemoryPlayerLink
from runtime.players.side_channels import (
    STATS,
    EngineSettings,
    container,
    engine_configuration,
    environment_parameters,
)
from runtime.players.wire import communicator_pb2 as pb
from tests.support.player_links import Driver, assignment
from tests.support.player_messages import Moment, introduction_message, output_message, simple_agent, simple_brain

Result = TypeVar("Result")
BRAIN = simple_brain()
LIMITS = LinkLimits(start_timeout_s=5.0, step_timeout_s=5.0)
FIRST = output_message([Moment(BRAIN, (simple_agent(BRAIN),))], announced=[BRAIN])
READY = pb.UnityMessageProto(header=pb.HeaderProto(status=200))


class Tape:
    """A player that plays messages from a list, then ends; keeps what it heard."""

    def __init__(self, *messages: pb.UnityMessageProto, delay_s: float = 0.0, version: str = "1.5.0") -> None:
        self._messages = deque([introduction_message(version), READY, *messages])
        self._delay_s = delay_s
        self.heard: list[pb.UnityMessageProto] = []
        self.closings = 0

    def exchange(self, request_reply: bytes | None) -> bytes | None:
        if request_reply is not None:
            self.heard.append(pb.UnityMessageProto.FromString(request_reply))
        return self._messages.popleft().SerializeToString() if self._messages else None

    def next_delay_s(self) -> float:
        return self._delay_s

    def close(self) -> None:
        self.closings += 1


class Torn(Tape):
    """A player that raises at its third call."""

    def exchange(self, request_reply: bytes | None) -> bytes | None:
        if len(self.heard) == 2:
            raise ZeroDivisionError("torn")
        return super().exchange(request_reply)


def run(work: Coroutine[Any, Any, Result]) -> Result:
    return asyncio.run(asyncio.wait_for(work, 30.0))


def link_to(tape: Tape, limits: LinkLimits = LIMITS, *, engine: EngineSettings | None = None) -> MemoryPlayerLink:
    ours = assignment(6, incarnation=1, seed=77, port=0)
    talk = Conversation(ours, engine or EngineSettings(), num_areas=2)
    return MemoryPlayerLink(ours, limits, conversation=talk, open_player=lambda: tape)


async def live(link: MemoryPlayerLink, steps: int) -> Driver:
    driver = Driver(link)
    try:
        await driver.begin({"size": 2.0})
        await driver.steps(steps)
    finally:
        await link.close()
        await link.close()
    return driver


def test_the_player_hears_seed_reset_actions_and_the_end() -> None:
    tape = Tape(FIRST, FIRST)
    run(live(link_to(tape), 1))
    hello, reset, step, end = tape.heard
    assert hello.unity_input.rl_initialization_input.seed == 77
    assert hello.unity_input.rl_initialization_input.num_areas == 2
    assert reset.unity_input.rl_input.command == pb.CommandProto.RESET
    expected = engine_configuration(EngineSettings()) + environment_parameters({"size": 2.0})
    assert reset.unity_input.rl_input.side_channel == expected
    assert list(step.unity_input.rl_input.agent_actions["Bot"].value[0].continuous_actions) == [0.0]
    assert end.header.status == 400
    assert tape.closings == 1


def test_engine_settings_are_sent_again_only_when_the_speed_changes() -> None:
    tape = Tape(FIRST, FIRST, FIRST)
    link = link_to(tape)

    async def life() -> None:
        await link.start()
        for train_mode in (True, True, False):
            await link.reset({}, train_mode=train_mode)
        await link.close()

    run(life())
    sent = [each.unity_input.rl_input.side_channel for each in tape.heard[1:4]]
    assert sent == [engine_configuration(EngineSettings()), b"", engine_configuration(EngineSettings(time_scale=1.0))]


def test_a_speed_that_was_asked_for_holds_outside_of_training_mode_too() -> None:
    tape, engine = Tape(FIRST, FIRST), EngineSettings(time_scale=3.0, normal_speed=3.0)
    link = link_to(tape, engine=engine)

    async def life() -> None:
        await link.start()
        for _ in range(2):
            await link.reset({}, train_mode=False)
        await link.close()

    run(life())
    sent = [each.unity_input.rl_input.side_channel for each in tape.heard[1:3]]
    assert sent == [engine_configuration(engine), b""]
    assert engine_configuration(engine) == engine_configuration(EngineSettings(time_scale=3.0))


def test_statistics_of_the_player_come_with_its_reply() -> None:
    payload = b"\x01\x00\x00\x00x" + bytes(8)
    message = output_message(
        [Moment(BRAIN, (simple_agent(BRAIN),))], announced=[BRAIN], side_channel=container(STATS, payload)
    )
    driver = run(live(link_to(Tape(message)), 0))
    assert driver.reply is not None
    assert driver.reply.stats == (Stat("x", 0.0, StatAggregation.AVERAGE),)


def test_a_message_with_a_broken_side_channel_is_refused() -> None:
    message = output_message([Moment(BRAIN, (simple_agent(BRAIN),))], announced=[BRAIN], side_channel=b"short")
    with pytest.raises(PlayerProtocolError, match=r"environment 6 .*side channel"):
        run(live(link_to(Tape(message)), 0))


def test_a_closed_link_takes_no_orders() -> None:
    link = link_to(Tape(FIRST, FIRST))

    async def life() -> None:
        driver = Driver(link)
        await driver.begin()
        await link.close()
        with pytest.raises(PlayerDiedError, match="is closed"):
            await driver.steps(1)

    run(life())


def test_a_player_that_ends_is_lost() -> None:
    with pytest.raises(
        PlayerDiedError, match=r"environment 6 \(incarnation 1\), env step 1: the player in memory has ended"
    ):
        run(live(link_to(Tape(FIRST)), 1))


def test_a_player_that_raises_is_lost_with_its_words() -> None:
    tape = Torn(FIRST)
    with pytest.raises(PlayerDiedError, match="failed: ZeroDivisionError: torn"):
        run(live(link_to(tape), 1))
    assert tape.closings == 1


def test_a_player_of_another_version_is_refused() -> None:
    with pytest.raises(VersionMismatchError, match=r"environment 6 .*'0\.15\.0'"):
        run(live(link_to(Tape(version="0.15.0")), 0))


def test_delays_of_two_players_run_side_by_side() -> None:
    async def both() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await asyncio.gather(*(live(link_to(Tape(FIRST, FIRST, delay_s=0.1)), 1) for _ in range(5)))
        return loop.time() - began

    assert 0.4 <= run(both()) < 1.6  # four calls each; one player after the other would take 2 s


def test_a_delay_beyond_the_limit_is_a_time_out() -> None:
    limits = LinkLimits(start_timeout_s=5.0, step_timeout_s=0.05)
    with pytest.raises(PlayerTimeoutError, match=r"has not answered for 0\.1 s|has not answered for 0\.0 s"):
        run(live(link_to(Tape(FIRST, delay_s=0.2), limits), 0))


def test_wrong_actions_are_refused_before_anything_is_sent() -> None:
    tape = Tape(FIRST, FIRST)
    link = link_to(tape)

    async def life() -> None:
        driver = Driver(link)
        await driver.begin()
        with pytest.raises(ShapeError, match="no actions for brain 'Bot'"):
            await link.step({})
        assert link.conversation.place.step == 0
        await driver.steps(1)
        await link.close()

    run(life())
    assert len(tape.heard) == 4


def test_bundled_players_are_the_same_in_memory_for_the_same_seed() -> None:
    factory = cloudpickle.loads(cloudpickle.dumps(player_factory("fake:hybrid?link=memory,agents=3")))
    assert isinstance(factory, MemoryPlayerFactory)
    assert not factory.is_blocking

    async def life() -> bytes:
        link = factory.open_link(assignment(seed=5, port=0), LIMITS)
        driver = Driver(link)
        await driver.begin()
        reply = await driver.steps(20)
        await link.close()
        return b"".join(each.tobytes() for each in reply.infos["Hybrid"].observations)

    assert run(life()) == run(life())


def test_a_player_that_cannot_be_opened_is_named_by_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for target in ("fake:basik?link=memory", f"fake:basic?link=memory,journal={tmp_path / 'file' / 'folder'}"):
        link = MemoryPlayerFactory(target=target).open_link(assignment(6, port=0), LIMITS)
        with pytest.raises(EnvironmentFactoryError, match=r"environment 6 .*could not be opened"):
            run(link.start())
        run(link.close())


def test_an_unknown_scene_is_the_users_mistake() -> None:
    with pytest.raises(UsageError, match="basic"):
        player_factory("fake:basik")
