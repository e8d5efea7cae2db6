"""ActorEnvManager: the seed's EnvManager surface over EnvWorker actors, in processes and in one process."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from functools import partial
from threading import Event
from typing import Literal

import psutil
import pytest

from runtime.actors.composition import RunPlan
from runtime.actors.env_manager import ActorEnvManager
from runtime.actors.inline import InlineSystem
from runtime.decisions.effects import CONTROLLER, SUPERVISOR
from runtime.decisions.restarts import RestartLimits
from runtime.decisions.supervisor import SupervisorOptions
from runtime.errors import PlayerError, UsageError
from runtime.experience.brains import agent_name
from runtime.experience.steps import EnvManager, StepInfo
from runtime.messages import PolicyUpdate
from runtime.players.factories import MemoryPlayerFactory
from tests.support.builders_messages import RUN, start_worker
from tests.support.object_envs import Always, CountingEnv

SYSTEMS: tuple[Literal["processes", "inline"], ...] = ("processes", "inline")


@pytest.fixture(scope="module", params=SYSTEMS)
def manager(request: pytest.FixtureRequest) -> Iterator[ActorEnvManager]:
    with ActorEnvManager(CountingEnv, 3, actor_system=request.param) as made:
        made.publish(PolicyUpdate.from_policy("Counter", Always(0.5)))
        yield made


def observed(info: StepInfo) -> list[float]:
    vector: list[float] = info.current_all_brain_info["Counter"].vector_observations[0].tolist()
    return vector


def test_it_is_an_env_manager_of_the_seed(manager: ActorEnvManager) -> None:
    assert isinstance(manager, EnvManager)
    assert list(manager.external_brains) == ["Counter"]


def test_a_reset_gives_first_observations_in_the_order_of_workers(manager: ActorEnvManager) -> None:
    infos = manager.reset()
    assert [observed(info) for info in infos] == [[0, 0], [1, 0], [2, 0]]
    assert all(info.previous_all_brain_info is None and info.brain_name_to_action_info is None for info in infos)


def test_a_reset_carries_parameters_and_shows_them(manager: ActorEnvManager) -> None:
    manager.reset({"size": 4.0})
    assert manager.reset_parameters["size"] == 4.0


def test_a_step_advances_every_environment_once_and_tells_what_was_done(manager: ActorEnvManager) -> None:
    manager.reset()
    manager.step()
    infos = manager.step()
    assert [observed(info) for info in infos] == [[0, 2], [1, 2], [2, 2]]
    for worker, info in enumerate(infos):
        assert info.previous_all_brain_info is not None
        assert info.brain_name_to_action_info is not None
        assert info.previous_all_brain_info["Counter"].vector_observations[0, 1] == 1
        assert info.brain_name_to_action_info["Counter"].action.tolist() == [[0.5]]
        assert info.current_all_brain_info["Counter"].rewards.tolist() == [0.5]
        assert info.current_all_brain_info["Counter"].agents == [agent_name(worker, 7)]


def test_a_published_policy_acts_in_the_next_step_and_gets_a_higher_version(manager: ActorEnvManager) -> None:
    manager.reset()
    first = manager.publish(PolicyUpdate.from_policy("Counter", Always(0.25)))
    manager.step()
    second = manager.publish(PolicyUpdate.from_policy("Counter", Always(0.75)))
    rewards = [float(info.current_all_brain_info["Counter"].rewards[0]) for info in manager.step()]
    assert rewards == [0.75] * 3
    assert second > first
    manager.publish(PolicyUpdate.from_policy("Counter", Always(0.5)))


@pytest.mark.parametrize("system", SYSTEMS)
def test_misuse_is_refused_with_what_to_do(system: Literal["processes", "inline"]) -> None:
    with ActorEnvManager(CountingEnv, 1, actor_system=system) as fresh:
        with pytest.raises(UsageError, match=r"before reset\(\)"):
            fresh.step()
        fresh.reset()
        with pytest.raises(UsageError, match="no policy was published for \\['Counter'\\]"):
            fresh.step()
    with pytest.raises(UsageError, match="closed"):
        fresh.reset()
    fresh.close()
    with pytest.raises(UsageError, match="at least one environment"):
        ActorEnvManager(CountingEnv, 0)


@pytest.mark.parametrize("system", SYSTEMS)
def test_an_exception_of_the_users_environment_reaches_the_user_with_its_traceback(
    system: Literal["processes", "inline"],
) -> None:
    with ActorEnvManager(partial(CountingEnv, fails_at=3), 2, actor_system=system) as manager:
        manager.publish(PolicyUpdate.from_policy("Counter", Always(0.0)))
        manager.reset()
        manager.step()
        manager.step()
        began_s = time.monotonic()
        with pytest.raises(PlayerError, match=r"(?s)ValueError: the world of worker \d is broken.*Traceback"):
            manager.step()
        assert time.monotonic() - began_s < 10.0


def test_what_was_said_before_the_place_outside_is_asked_for_again_is_still_heard() -> None:
    limits = RestartLimits()
    options = SupervisorOptions(
        run=RUN, worker_envs=(), template=start_worker(), ports={}, limits=limits, has_controller=False
    )
    system = InlineSystem(RunPlan(run=RUN, supervisor=options, controller=None))
    try:
        system.send(SUPERVISOR, CONTROLLER, "an early message")
        has_arrived = Event()
        system.post(SUPERVISOR, has_arrived.set)
        assert has_arrived.wait(60.0)
        system.join()
        assert system.listen(10.0) == "an early message"
    finally:
        system.close(10.0)


def test_a_killed_env_worker_is_replaced_and_its_environment_reset_while_the_others_go_on() -> None:
    with ActorEnvManager(CountingEnv, 2) as manager:
        manager.publish(PolicyUpdate.from_policy("Counter", Always(0.5)))
        manager.reset()
        manager.step()
        victim = next(each for each in _children_named("EnvWorker 1"))
        os.kill(victim.pid, signal.SIGKILL)
        for _ in range(3):
            infos = manager.step()
        assert observed(infos[0]) == [0, 4]
        assert observed(infos[1])[1] < 4


def test_bundled_players_in_memory_are_driven_by_a_hand_written_policy() -> None:
    with ActorEnvManager(MemoryPlayerFactory(target="fake:basic?link=memory"), 2, actor_system="inline") as manager:
        manager.publish(PolicyUpdate.from_policy("Basic", Always(2.0)))
        manager.reset()
        rewards = [0.0, 0.0]
        for _ in range(7):
            for number, info in enumerate(manager.step()):
                brain = info.current_all_brain_info["Basic"]
                rewards[number] += float(brain.rewards.sum() + brain.terminals.rewards.sum())
        assert rewards == pytest.approx([0.93, 0.93])


def _children_named(name: str) -> list[psutil.Process]:
    """Descendants of this process with `name` in their title; none that is of another test's."""
    found = []
    for each in psutil.Process().children(recursive=True):
        try:
            if name in " ".join(each.cmdline()):
                found.append(each)
        except psutil.Error:
            continue
    return found
