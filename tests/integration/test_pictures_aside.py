"""Images are decoded beside the loop that serves the players, and what they show is the same."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field

import numpy as np
import pytest

from runtime.errors import PlayerContentError
from runtime.messages import EnvAssignment
from runtime.players.conversation import Conversation, Decoded
from runtime.players.factories import LinkExtras, UnityPlayerFactory, player_factory
from runtime.players.links import LinkLimits, PlayerReply
from runtime.players.side_channels import EngineSettings
from tests.support.player_links import Driver, assignment

LIMITS = LinkLimits(start_timeout_s=30.0, step_timeout_s=30.0)


class NotingConversation(Conversation):
    """Remembers on which threads it decodes."""

    def __init__(self, assignment: EnvAssignment, threads: list[str]) -> None:
        super().__init__(assignment, EngineSettings())
        self.threads = threads

    def decode(self, body: bytes) -> Decoded:
        self.threads.append(threading.current_thread().name)
        return super().decode(body)


@dataclass(frozen=True, slots=True)
class NotingExtras(LinkExtras):
    """Gives conversations that remember."""

    threads: list[str] = field(default_factory=list)

    def conversation(self, assignment: EnvAssignment, engine: EngineSettings, num_areas: int) -> Conversation:
        return NotingConversation(assignment, self.threads)


async def lived(factory: UnityPlayerFactory, steps: int) -> list[PlayerReply]:
    driver = Driver(factory.open_link(assignment(seed=11), LIMITS))
    try:
        return [await driver.begin(), *[await driver.steps(1) for _ in range(steps)]]
    finally:
        await driver.link.close()


def run(scene: str) -> tuple[list[PlayerReply], list[str]]:
    extras = NotingExtras()
    factory = UnityPlayerFactory(target=f"fake:{scene}?agents=2", run="test", extras=extras)
    return asyncio.run(asyncio.wait_for(lived(factory, 3), 90.0)), extras.threads


def test_images_are_decoded_on_another_thread_once_they_are_known() -> None:
    replies, threads = run("gridworld")
    here = threading.current_thread().name
    assert threads[0] == here  # the first reply announces them
    assert here not in threads[1:]
    assert len(threads) == 4
    factory = player_factory("fake:gridworld?agents=2&link=memory", run="test")
    driver = Driver(factory.open_link(assignment(seed=11), LIMITS))

    async def in_memory() -> list[PlayerReply]:
        return [await driver.begin(), *[await driver.steps(1) for _ in range(3)]]

    for reply, other in zip(replies, asyncio.run(in_memory()), strict=True):
        for name, info in reply.infos.items():
            mine, its = info.decisions.observations, other.infos[name].decisions.observations
            assert all(np.array_equal(a, b) for a, b in zip(mine, its, strict=True))


def test_vectors_are_decoded_where_they_arrive() -> None:
    assert set(run("basic")[1]) == {threading.current_thread().name}


def test_what_is_wrong_with_a_message_of_images_is_told_as_ever() -> None:
    faulty = UnityPlayerFactory(target="fake:gridworld?agents=2&fault=inf:field=reward@step=2", run="test")
    with pytest.raises(PlayerContentError, match="reward is inf"):
        asyncio.run(asyncio.wait_for(lived(faulty, 5), 90.0))
