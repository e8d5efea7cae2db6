"""Bundled players with faults, behind real links, and what becomes of them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import psutil

from runtime.players.factories import MemoryPlayerFactory, UnityPlayerFactory
from runtime.players.links import LinkLimits, PlayerLink
from tests.support.player_links import Driver, assignment

Result = TypeVar("Result")
LIMITS = LinkLimits(start_timeout_s=60.0, step_timeout_s=30.0, close_timeout_s=3.0)
LIFE_S_MAX = 100.0


def faulty_link(
    fault: str, scene: str = "basic", *, limits: LinkLimits = LIMITS, logs: Path | None = None, env_id: int = 2
) -> PlayerLink:
    """A link to a player process with this fault; of environment 2, incarnation 1."""
    factory = UnityPlayerFactory(target=_url(scene, fault), run="test", log_folder=None if logs is None else str(logs))
    return factory.open_link(assignment(env_id, incarnation=1), limits)


def faulty_memory_link(fault: str, scene: str = "basic", *, limits: LinkLimits = LIMITS) -> PlayerLink:
    """The same in this process."""
    factory = MemoryPlayerFactory(target=_url(scene, fault) + "&link=memory")
    return factory.open_link(assignment(2, incarnation=1), limits)


def _url(scene: str, fault: str) -> str:
    return f"fake:{scene}{'&' if '?' in scene else '?'}fault={fault}"


def lived(link: PlayerLink, steps: int) -> Driver:
    """The driver after a reset and that many steps; the player has been closed and nothing of it is left.

    Raises what the link raised.
    """

    async def life() -> Driver:
        driver = Driver(link)
        try:
            await driver.begin()
            await driver.steps(steps)
        finally:
            pid = link.pid
            await link.close()
            assert pid == 0 or not psutil.pid_exists(pid)
        return driver

    return run(life())


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """The result of a coroutine that must end in time."""
    return asyncio.run(asyncio.wait_for(work, LIFE_S_MAX))
