"""A whole run in one process that a test can see into: its players count for themselves, its learner checks what comes.

All parts are the real ones, on the inline system; only what is at the two ends is small: players in memory, and a
learner that learns nothing. Both travel as recipes and find their house by the run's name.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import cloudpickle
import numpy as np

from runtime.actors.composition import RunPlan
from runtime.actors.controller_start import ControllerStart
from runtime.actors.inline import InlineSystem
from runtime.decisions.controller_state import ControllerOptions
from runtime.decisions.restarts import RestartLimits
from runtime.decisions.supervisor import SupervisorOptions
from runtime.errors import PlayerDiedError, PlayerError
from runtime.experience.actions import Actions
from runtime.experience.brains import (
    ActionSpec,
    BrainInfo,
    BrainName,
    BrainParameters,
    DecisionRows,
    EnvId,
    ObservationSpec,
    TerminalRows,
    empty_rows,
)
from runtime.experience.columns import StepBlock
from runtime.experience.parameters import ParameterValue
from runtime.learner import BehaviorSettings, BrainProgress, LearnerOptions, PolicyRelease, SaveJob, Summary
from runtime.messages import EnvAssignment, StartWorker, Status, StopRequest
from runtime.players.links import LinkLimits, PlayerHello, PlayerReply
from runtime.recording_options import RecordingOptions
from tests.support.graphs import constant_graph

NAME = "Walker"
BRAIN = BrainParameters(BrainName(NAME), (ObservationSpec((3,)),), ActionSpec(0, (2,)))
GRAPH = constant_graph(BRAIN, logits=(0.0, 0.0))
BUFFER, ENDLESS, WAIT_S, LOST_S = 24, 1_000_000_000, 20.0, 0.3
WORKERS = ((EnvId(0), EnvId(1)), (EnvId(2),))
LIMITS = RestartLimits(lifetime_max=-1, rate_max=-1)

_houses: dict[int, House] = {}
_seeds = iter(range(1, ENDLESS))


@dataclass(slots=True)
class Counts:
    """Env steps, agent steps and decisions, as somebody counted them."""

    env_steps: int = 0
    agent_steps: int = 0
    decisions: int = 0

    def add(self, env_steps: int, agent_steps: int, decisions: int) -> None:
        self.env_steps += env_steps
        self.agent_steps += agent_steps
        self.decisions += decisions


class HousePlayer:
    """One agent at first, two from step 5 on; an agent ends every seventh step. What it observes is where it is."""

    def __init__(self, house: House, assignment: EnvAssignment) -> None:
        self._house = house
        self._place = assignment
        self._steps = 0
        self._loop = asyncio.get_running_loop()
        self._death: asyncio.Future[None] = self._loop.create_future()
        self.on_note: Callable[[str], None] = lambda _: None
        self.on_lost: Callable[[PlayerError], None] = lambda _: None
        self.pid = 0

    async def start(self) -> PlayerHello:
        self._house.players[self._place.env_id] = self
        return PlayerHello(pid=0, protocol="house", brains=(BRAIN,))

    async def reset(self, parameters: Mapping[str, ParameterValue], *, train_mode: bool) -> PlayerReply:
        del parameters, train_mode
        return PlayerReply(infos={NAME: self._rows(1, ended=False)})

    async def step(self, actions: Mapping[str, Actions]) -> PlayerReply:
        if self._death.done():
            raise self._died()
        # The loop turns before the answer comes, so that whatever is to happen can happen in mid-step.
        await asyncio.wait([self._death], timeout=self._house.step_s)
        if self._death.done():
            raise self._died()
        acted = len(actions[NAME].discrete)
        self._steps += 1
        self._house.counted.add(1, acted, acted)
        return PlayerReply(infos={NAME: self._rows(2 if self._steps >= 5 else 1, ended=self._steps % 7 == 0)})

    async def close(self) -> None:
        if self._house.players.get(self._place.env_id) is self:
            del self._house.players[self._place.env_id]

    def die(self) -> None:
        """From any thread: the process of this player is gone."""
        self._loop.call_soon_threadsafe(self._die)

    def _die(self) -> None:
        if not self._death.done():
            self._death.set_result(None)
            self.on_lost(self._died())

    def _died(self) -> PlayerDiedError:
        return PlayerDiedError("the player has died", env_id=self._place.env_id, incarnation=self._place.incarnation)

    def _rows(self, agents: int, *, ended: bool) -> BrainInfo:
        here = (self._place.env_id, self._place.incarnation, self._steps)
        ids = np.arange(agents, dtype=np.int64)
        rows = DecisionRows(
            agents=ids,
            observations=(np.array([here] * agents, np.float32),),
            rewards=np.ones(agents, np.float32),
            action_masks=None,
            group_ids=np.zeros(agents, np.int32),
            group_rewards=np.zeros(agents, np.float32),
        )
        _, none = empty_rows(BRAIN)
        ends = none
        if ended:
            ends = TerminalRows(
                agents=np.zeros(1, np.int64),
                observations=(np.array([here], np.float32),),
                rewards=np.ones(1, np.float32),
                interrupted=np.zeros(1, np.bool_),
                group_ids=np.zeros(1, np.int32),
                group_rewards=np.zeros(1, np.float32),
            )
        return BrainInfo(rows, ends, worker_id=self._place.env_id)


@dataclass(frozen=True, slots=True)
class HouseFactory:
    """The recipe of the players."""

    key: int
    is_blocking: bool = False

    def open_link(self, assignment: EnvAssignment, limits: LinkLimits) -> HousePlayer:
        del limits
        return HousePlayer(_houses[self.key], assignment)


@dataclass(frozen=True, slots=True)
class Updated:
    """What an update made."""

    behavior: str


class HouseLearner:
    """Counts and checks what is accepted: each step once, in order, of one incarnation after the other."""

    def __init__(self, options: LearnerOptions) -> None:
        self._house = _houses[options.run_seed]
        self._buffered = self._version = 0
        self._next: dict[tuple[int, int], int] = {}
        self._newest: dict[int, int] = {}

    def add_brain(self, brain: BrainParameters) -> PolicyRelease | None:
        del brain
        return self._release() if not self._version and not self._house.accepted.env_steps else None

    def warm_up(self, behavior: str) -> None:
        """There is nothing to warm up."""

    def accept(self, block: StepBlock) -> None:
        house, key = self._house, (int(block.env_id), int(block.incarnation))
        if not block.steps:
            return
        expected = self._next.get(key, 0)
        # Only asynchronous collection may have declared some lost in between, as stale.
        if block.first_step < expected or (house.is_sync and block.first_step != expected):
            house.wrong.append(f"step {block.first_step} of {key} was accepted, expected {expected}")
        if key[1] < self._newest.get(key[0], -1):
            house.wrong.append(f"steps of {key} were accepted after those of {self._newest[key[0]]}")
        if any(version > self._version for version in block.versions.values()):
            house.wrong.append(f"{key} acted with {dict(block.versions)}, the newest is {self._version}")
        self._newest[key[0]] = key[1]
        self._next[key] = block.first_step + block.steps
        self._buffered += block.agent_steps
        house.accept(block)

    def cut(self, env_id: EnvId | None = None) -> None:
        self._house.cuts[-1 if env_id is None else int(env_id)] += 1

    def cut_idle(self, env_id: EnvId, steps_max: int) -> int:
        del env_id, steps_max
        return 0

    def progress(self) -> Mapping[str, BrainProgress]:
        return {
            NAME: BrainProgress(
                behavior=NAME,
                steps=self._house.accepted.agent_steps,
                max_steps=ENDLESS,
                buffered=self._buffered,
                buffer_size=BUFFER,
                is_ready_update=self._buffered >= BUFFER,
                version=self._version,
                episodes=0,
                mean_reward=None,
                mean_episode_length=None,
            )
        }

    def take_summaries(self) -> Sequence[Summary]:
        return ()

    def begin_update(self, behavior: str) -> Callable[[], Updated]:
        self._buffered = 0
        newest = self._version

        def update() -> Updated:
            # Real updates take their time: nobody is left three versions behind by a few blinks of an eye.
            self._house.await_acting(newest - 1)
            return Updated(behavior)

        return update

    def finish_update(self, outcome: Updated) -> PolicyRelease:
        del outcome
        self._version += 1
        self._house.versions = self._version
        return self._release()

    def unity_model(self, behavior: str) -> bytes:
        del behavior
        return b"model"

    def begin_save(self, run_state: Mapping[str, object]) -> SaveJob:
        self._house.saved = dict(run_state)
        return lambda folder: folder.mkdir(exist_ok=True)

    def load(self, folders: Sequence[Path]) -> Mapping[str, object]:
        raise AssertionError(f"nothing is to be loaded, asked for {folders}")

    def initialize_from(self, folders: Sequence[Path]) -> None:
        raise AssertionError(f"nothing is to be loaded, asked for {folders}")

    def _release(self) -> PolicyRelease:
        return PolicyRelease(behavior=NAME, version=self._version, body=GRAPH)


@dataclass
class House:
    """One run. counted: by the players; accepted: by the learner; wrong: what should never have been accepted."""

    root: Path
    is_sync: bool = True
    step_s: float = 0.0
    counted: Counts = field(default_factory=Counts)
    accepted: Counts = field(default_factory=Counts)
    wrong: list[str] = field(default_factory=list)
    cuts: Counter[int] = field(default_factory=Counter)
    players: dict[int, HousePlayer] = field(default_factory=dict)
    last_block: StepBlock | None = None
    versions: int = 0
    acted: dict[int, int] = field(default_factory=dict)
    saved: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.seed = next(_seeds)
        self.run = f"house-{self.seed}"
        self._changed = threading.Condition()
        _houses[self.seed] = self
        self.system = InlineSystem(self._plan())

    def await_acting(self, version: int) -> None:
        """Wait until steps of every environment with this version were accepted; not for long, one may be lost."""
        envs = [int(each) for held in WORKERS for each in held]
        with self._changed:
            self._changed.wait_for(lambda: all(self.acted.get(each, -1) >= version for each in envs), LOST_S)

    def accept(self, block: StepBlock) -> None:
        with self._changed:
            self.acted[int(block.env_id)] = max(block.versions.values(), default=-1)
            self.last_block = block
            self.accepted.add(block.steps, block.agent_steps, block.decisions)
            self._changed.notify_all()

    def await_steps(self, env_steps: int) -> None:
        """Wait until so many more env steps were accepted."""
        with self._changed:
            wanted = self.accepted.env_steps + env_steps
            arrived = self._changed.wait_for(lambda: self.accepted.env_steps >= wanted, WAIT_S)
        assert arrived, f"{self.accepted.env_steps} env steps, and no more of them for {WAIT_S:g} s"

    def await_status(self, is_wanted: Callable[[Status], bool], what: str) -> Status:
        """Ask until the status is as wanted."""
        deadline_s, status = time.monotonic() + WAIT_S, None
        while time.monotonic() < deadline_s:
            status = self.system.status(1.0)
            if status is not None and is_wanted(status):
                return status
        raise AssertionError(f"{what} did not come within {WAIT_S:g} s: {status}")

    def stop(self) -> Status:
        """End the run in order; its last status."""
        self.system.request_stop(StopRequest(run=self.run, reason="interrupted", saves=True, deadline_s=WAIT_S))
        return self.await_status(lambda each: bool(each.exit_reason), "the end")

    def close(self) -> None:
        self.system.close(WAIT_S)
        del _houses[self.seed]

    def _plan(self) -> RunPlan:
        template = StartWorker(
            run=self.run,
            worker=0,
            environments=(),
            env_factory=cloudpickle.dumps(HouseFactory(self.seed)),
            run_seed=self.seed,
            start_timeout_s=WAIT_S,
            step_timeout_s=WAIT_S,
            block_steps_max=4,
        )
        recording = RecordingOptions(
            run_id=self.run, seed=self.seed, root=str(self.root), launched_s=time.monotonic(), launched_at=time.time()
        )
        learner = LearnerOptions(run_seed=self.seed, settings_for=_settings, keeps_versions=3)
        count = sum(len(each) for each in WORKERS)
        return RunPlan(
            run=self.run,
            supervisor=SupervisorOptions(run=self.run, worker_envs=WORKERS, template=template, ports={}, limits=LIMITS),
            controller=ControllerStart(
                options=ControllerOptions(
                    run=self.run, environments=count, is_sync=self.is_sync, block_steps_max=4, stop_deadline_s=WAIT_S
                ),
                recording=recording,
                learner=cloudpickle.dumps((HouseLearner, learner)),
            ),
        )


def _settings(behavior: str) -> BehaviorSettings:
    del behavior
    return BehaviorSettings(checkpoint_interval=200)
