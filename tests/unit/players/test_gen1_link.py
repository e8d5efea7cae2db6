"""A player of API-8 to API-10 in memory: its whole life with the same link that newer players have."""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

import numpy as np
import pytest

from runtime.errors import PlayerDiedError, ShapeError, VersionMismatchError
from runtime.experience.actions import Actions
from runtime.experience.parameters import UniformDraw, drawn_value
from runtime.players.builtin_channels import FloatPropertiesChannel
from runtime.players.conversation import Conversation
from runtime.players.dialects import Reading
from runtime.players.links import LinkLimits, PlayerReply, Speaker
from runtime.players.memory_link import BytePlayer, MemoryPlayerLink
from runtime.players.side_channels import EngineSettings
from runtime.players.wire import communicator_gen1_pb2 as pb
from tests.support.player_links import assignment
from tests.support.scripted_gen1 import LIMIT, WORLD_STEPS, Gen1Player

Result = TypeVar("Result")
LIMITS = LinkLimits(start_timeout_s=5.0, step_timeout_s=5.0)
RIGHT, STAY = 1, 0


def run(work: Coroutine[Any, Any, Result]) -> Result:
    return asyncio.run(asyncio.wait_for(work, 30.0))


class Listener:
    """Keeps the messages that it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[Speaker, bytes]] = []
        self.closings = 0

    def on_bytes(self, speaker: Speaker, body: bytes) -> None:
        self.heard.append((speaker, body))

    def close(self) -> None:
        self.closings += 1


def link_to(player: BytePlayer, *, watches: bool = False, tap: Listener | None = None) -> MemoryPlayerLink:
    ours = assignment(6, seed=77, port=0)
    talk = Conversation(ours, EngineSettings(), reading=Reading(watches=watches))
    return MemoryPlayerLink(ours, LIMITS, conversation=talk, open_player=lambda: player, open_tap=lambda: tap)


def moves(*indices: int) -> dict[str, Actions]:
    return {"Walker": Actions(np.zeros((len(indices), 0), np.float32), np.array([indices], np.int32).T)}


async def lived(link: MemoryPlayerLink, *steps: tuple[int, int]) -> list[PlayerReply]:
    await link.start()
    replies = [await link.reset({}, train_mode=True)]
    for step in steps:
        replies.append(await link.step(moves(*step) if len(replies[-1].infos["Walker"].decisions) else {}))
    await link.close()
    return replies


def test_the_player_introduces_its_brains_and_parameters() -> None:
    link = link_to(Gen1Player())
    hello = run(link.start())
    assert (hello.protocol, hello.academy, hello.reset_parameters) == ("API-9", "Academy", {"size": 1.0})
    assert [each.brain_name for each in hello.brains] == ["Walker"]
    assert [each.brain_name for each in hello.watched] == ["Watched"]


def test_episodes_of_both_agents_end_as_they_were_played() -> None:
    replies = run(lived(link_to(Gen1Player()), *[(RIGHT, STAY)] * LIMIT))
    ends = [
        (step, agent, reward, cut, observation)
        for step, reply in enumerate(replies)
        for info in [reply.infos["Walker"]]
        for agent, reward, cut, observation in zip(
            info.terminals.agents.tolist(),
            info.terminals.rewards.tolist(),
            info.max_reached,
            info.terminals.observations[0][:, 0].tolist(),
            strict=True,
        )
    ]
    assert ends == [(3, -1000, 1.0, False, 2.0), (5, 7, pytest.approx(-0.1), True, 0.0)]
    assert all(reply.infos["Walker"].agents == ["$6--1000", "$6-7"] for reply in replies)
    assert replies[3].infos["Walker"].rewards.tolist() == [0.0, np.float32(-0.1)]
    assert replies[1].infos["Walker"].previous_vector_actions.tolist() == [[1.0], [0.0]]
    assert replies[1].infos["Walker"].text_observations == ("cell 1", "cell 0")


def test_the_player_hears_seed_parameters_mode_actions_and_the_end() -> None:
    player, tap = Gen1Player(), Listener()
    link = link_to(player, tap=tap)

    async def life() -> None:
        await link.start()
        await link.reset({"size": 2.0, "drawn": UniformDraw(min_value=0.0, max_value=1.0, seed=3)}, train_mode=False)
        keeps = Actions(
            np.zeros((2, 0), np.float32),
            np.array([[1], [0]], np.int32),
            memories=np.array([[1.0, 2.0], [3.0, 4.0]], np.float32),
            texts=("a", "b"),
            values=np.array([0.5, 0.25], np.float32),
        )
        reply = await link.step({"Walker": keeps})
        assert reply.infos["Walker"].memories.tolist() == [[1.0, 2.0], [3.0, 4.0]]
        assert reply.infos["Walker"].vector_observations.tolist() == [[1.0, 2.0], [0.0, 2.0]]
        await link.close()
        await link.close()

    run(life())
    hello, reset, step, end = player.heard
    assert hello.unity_input.rl_initialization_input.seed == 77
    parameters: Mapping[str, float] = reset.unity_input.rl_input.environment_parameters.float_parameters
    drawn = drawn_value(UniformDraw(min_value=0.0, max_value=1.0, seed=3), reset=0)
    assert dict(parameters) == {"size": 2.0, "drawn": pytest.approx(drawn)}
    assert reset.unity_input.rl_input.command == pb.CommandProto.RESET
    assert not reset.unity_input.rl_input.is_training
    assert list(step.unity_input.rl_input.agent_actions) == ["Walker"]
    assert [each.text_actions for each in step.unity_input.rl_input.agent_actions["Walker"].value] == ["a", "b"]
    assert end.header.status == 400
    speakers = [speaker for speaker, _ in tap.heard]
    assert speakers == ["player", "trainer", "player", "trainer", "player", "trainer", "player", "trainer"]
    assert tap.heard[-1] == ("trainer", bytes.fromhex("0a03089003"))
    assert tap.closings == 1


@pytest.mark.parametrize("version", ["API-8", "API-9"])
def test_after_the_end_of_all_the_next_step_is_a_reset_with_the_same_parameters(version: str) -> None:
    player = Gen1Player(version=version, ends_all=True)
    replies = run(lived(link_to(player), *[(RIGHT, STAY)] * (WORLD_STEPS + 2)))
    assert [step for step, reply in enumerate(replies) if reply.global_done] == [WORLD_STEPS]
    over, after = replies[WORLD_STEPS].infos["Walker"], replies[WORLD_STEPS + 1].infos["Walker"]
    assert (len(over.decisions), over.max_reached) == (0, [True, True])
    assert (len(after.decisions), len(after.terminals)) == (2, 0)
    resets = [each.unity_input.rl_input for each in player.heard if each.unity_input.rl_input.command]
    assert len(resets) == 2
    assert resets[0] == resets[1]
    assert dict(resets[1].environment_parameters.float_parameters) == {"size": 1.0}


def test_brains_of_the_players_own_take_no_actions_and_are_shown_on_request() -> None:
    (reply,) = run(lived(link_to(Gen1Player(), watches=True)))
    assert reply.watched["Watched"].vector_observations.tolist() == [[0.0, 0.0]]
    link = link_to(Gen1Player())

    async def life() -> None:
        await link.start()
        await link.reset({}, train_mode=True)
        with pytest.raises(ShapeError, match="brain 'Watched', which this player does not have"):
            await link.step({**moves(0, 0), "Watched": moves(0)["Walker"]})

    run(life())


def test_actions_that_keep_too_little_are_refused_before_they_are_sent() -> None:
    player = Gen1Player()
    link = link_to(player)

    async def life() -> None:
        await link.start()
        await link.reset({}, train_mode=True)
        for more in (
            {"texts": ("a",)},
            {"memories": np.zeros((1, 2), np.float32)},
            {"values": np.zeros(3, np.float32)},
        ):
            with pytest.raises(ShapeError, match="one of each for every one of 2 agents"):
                await link.step({"Walker": Actions(*_halves(), **more)})
        with pytest.raises(ShapeError, match="is not finite"):
            await link.step({"Walker": Actions(*_halves(), values=np.array([0, np.nan], np.float32))})

    run(life())
    assert len(player.heard) == 2 + 1 - 1


def _halves() -> tuple[np.ndarray[Any, np.dtype[np.float32]], np.ndarray[Any, np.dtype[np.int32]]]:
    return np.zeros((2, 0), np.float32), np.zeros((2, 1), np.int32)


def test_a_player_of_a_version_between_the_generations_is_refused_by_name() -> None:
    with pytest.raises(VersionMismatchError, match=r"(?s)'API-11'.*ML-Agents 0.11.*1\.0\.0 \(Release 1\)"):
        run(link_to(Gen1Player(version="API-11")).start())


def test_a_player_that_closes_at_once_has_died() -> None:
    class Closing(Gen1Player):
        def exchange(self, request_reply: bytes | None) -> bytes | None:
            return bytes.fromhex("0a03089003")

    with pytest.raises(PlayerDiedError, match="says that it is closing"):
        run(link_to(Closing()).start())


def test_side_channels_are_said_not_to_be_served() -> None:
    ours = assignment(6, seed=77, port=0)
    talk = Conversation(ours, EngineSettings(), make_channels=lambda: (FloatPropertiesChannel(),))
    link = MemoryPlayerLink(ours, LIMITS, conversation=talk, open_player=Gen1Player)
    run(link.start())
    assert talk.notes == (
        "environment 6 (incarnation 0): players of this version have no side channels; 1 are not served.",
    )
