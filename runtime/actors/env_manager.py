"""`ActorEnvManager`: the seed's EnvManager over EnvWorker actors, for code that holds the loop itself.

    with ActorEnvManager(env_factory, n_env=4) as manager:
        manager.publish(PolicyUpdate.from_policy("Basic", policy))
        manager.reset()
        for step_info in manager.step(): ...

It stands where the TrainerController stands in a training run and does nothing but grant single steps. A player that is
lost is started again by the Supervisor's policy and reset; the others are not disturbed.
"""

from __future__ import annotations

import itertools
import os
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Protocol, Self

import cloudpickle

from runtime.actors.composition import RunPlan
from runtime.decisions.effects import HOLDER, worker_role
from runtime.decisions.restarts import RestartLimits
from runtime.decisions.supervisor import SupervisorOptions
from runtime.errors import ActorProtocolError, PlayerError, PlayerTimeoutError, UsageError
from runtime.experience.brains import BrainParameters, EnvId
from runtime.experience.steps import EnvManager, StepInfo
from runtime.messages import (
    BrainsFound,
    EnvGrant,
    HolderRestarted,
    PlayerLost,
    PolicyUpdate,
    ResetRequest,
    RestartDenied,
    StartWorker,
    StepGrant,
    StepInfosTaken,
    StopRequest,
    WorkerFailed,
    WorkerReady,
)
from runtime.players.factories import as_player_factory
from runtime.players.ports import PortClaim, claim_ports

BASE_PORT: Final = 5005
PORT_MAX: Final = 65_535
CLOSE_S: Final = 10.0
_runs = itertools.count()


class JoinedSystem(Protocol):
    """A set of parts without a TrainerController, and a place in it for code outside."""

    def join(self) -> None:
        """Take the TrainerController's place."""

    def listen(self, timeout_s: float) -> object | None:
        """The next message to that place; None when none comes in time."""

    def send_from_outside(self, to: Any, message: object) -> None:  # `Any`: a Role; protocols match by structure
        """Send to a part."""

    def lost(self) -> str:
        """Why the system cannot go on; empty while it can."""

    def close(self, deadline_s: float) -> None:
        """End everything."""


@dataclass(slots=True)
class _Env:
    """One environment as the manager sees it. infos: the newest StepInfo, with the step that it belongs to."""

    worker: int
    incarnation: int = -1
    reset_id: int = -1
    taken: int = 0
    is_ready: bool = False
    awaits: bool = False
    info: StepInfo | None = None
    brains: dict[str, BrainParameters] = field(default_factory=dict)
    reset_parameters: Mapping[str, float] = field(default_factory=dict)


class ActorEnvManager(EnvManager):
    """Environments in EnvWorker actors, stepped together.

    env_factory: `env_factory(worker_id)` returning any object with the seed's `BaseUnityEnvironment` surface, or a
    PlayerFactory. n_env: how many. workers: EnvWorkers; blocking environments get one each. Every wait has a limit:
    start_timeout_s until an environment has started, step_timeout_s per reset or step. Raises PlayerErrors when an
    environment cannot be started, or is lost for good.
    """

    def __init__(
        self,
        env_factory: Callable[[int], Any] | Any,  # `Any`: an object of the user's, known by its methods
        n_env: int = 1,
        *,
        workers: int | None = None,
        base_port: int | None = None,
        seed: int = 0,
        start_timeout_s: float = 60.0,
        step_timeout_s: float = 60.0,
        restarts: RestartLimits | None = None,
        actor_system: Literal["processes", "inline"] = "processes",
    ) -> None:
        if n_env < 1:
            msg = f"n_env is {n_env}; expected at least one environment"
            raise UsageError(msg)
        self._run = f"manager-{os.getpid()}-{next(_runs)}-{secrets.token_hex(3)}"
        self._limits_s = (start_timeout_s, step_timeout_s)
        self._versions: dict[str, int] = {}
        self._updates: dict[str, PolicyUpdate] = {}
        self._config: tuple[Mapping[str, float], bool] = ({}, True)
        factory = as_player_factory(env_factory)
        count = n_env if factory.is_blocking else max(1, min(n_env, workers or os.cpu_count() or 1))
        spread = tuple(tuple(EnvId(each) for each in range(n_env) if each % count == worker) for worker in range(count))
        self._envs = {EnvId(each): _Env(worker=each % count) for each in range(n_env)}
        ports, self._claim = _ports(n_env, base_port)
        template = StartWorker(
            run=self._run,
            worker=0,
            environments=(),
            env_factory=cloudpickle.dumps(factory),
            run_seed=seed,
            start_timeout_s=start_timeout_s,
            step_timeout_s=step_timeout_s,
            block_steps_max=1,
            carries="step_infos",
        )
        options = SupervisorOptions(
            run=self._run,
            worker_envs=spread,
            template=template,
            ports=ports,
            limits=restarts or RestartLimits(),
            is_blocking=factory.is_blocking,
            has_controller=False,
        )
        self._system: JoinedSystem | None = None
        try:
            self._system = _open(RunPlan(run=self._run, supervisor=options, controller=None), actor_system)
            self._system.join()
            self._wait(lambda: all(each.is_ready for each in self._envs.values()), start_timeout_s + 45.0, "start")
        except BaseException:
            self.close()
            raise

    # ---- the seed's surface

    def publish(self, update: PolicyUpdate) -> int:
        """Send a policy to everybody who acts, by way of the PolicyHolder; the version that it got.

        Steps taken from now on act with it. A network that is published already keeps its version.
        """
        known, held = self._versions.get(update.behavior, 0), self._updates.get(update.behavior)
        if held is not None and held.kind == update.kind == "onnx" and held.body == update.body:
            return known
        version = update.version if update.version > known else known + 1
        update = replace(update, run=self._run, version=version)
        self._versions[update.behavior] = version
        self._updates[update.behavior] = update
        self._the_system.send_from_outside(HOLDER, update)
        return version

    def step(self) -> list[StepInfo]:
        """One env step of every environment, in the order of their numbers.

        An environment that was lost meanwhile and is back gives what a reset gives. Raises UsageError before the first
        `reset` and for a brain without a published policy.
        """
        if any(each.reset_id < 0 for each in self._envs.values()):
            msg = "step() came before reset(); call reset() first"
            raise UsageError(msg)
        missing = sorted(
            {b.behavior_name for e in self._envs.values() for b in e.brains.values()} - set(self._versions)
        )
        if missing:
            msg = f"no policy was published for {missing}; publish(PolicyUpdate.from_policy(name, policy)) first"
            raise UsageError(msg)
        grants: dict[int, list[EnvGrant]] = {}
        for env_id, env in self._envs.items():
            env.info, env.awaits = None, True
            if env.is_ready:
                grants.setdefault(env.worker, []).append(self._grant(env_id, env))
        for worker, granted in grants.items():
            self._send_grant(worker, tuple(granted))
        self._wait(self._all_answered, self._limits_s[1] + 5.0, "step")
        return [self._taken_info(env) for env in self._envs.values()]

    def reset(self, config: Mapping[str, float] | None = None, train_mode: bool = True) -> list[StepInfo]:  # noqa: FBT001, FBT002 - the seed's signature
        """Reset every environment with these parameters (None: those of the last reset); their first observations."""
        self._config = (self._config[0] if config is None else dict(config), train_mode)
        for env_id, env in self._envs.items():
            env.info, env.awaits = None, True
            if env.is_ready:
                self._ask_reset(env_id, env)
        self._wait(self._all_answered, self._limits_s[1] + 5.0, "reset")
        return [self._taken_info(env) for env in self._envs.values()]

    @property
    def external_brains(self) -> Mapping[str, BrainParameters]:
        """The brains seen so far, by wire name. Newer players announce theirs with the first reset."""
        return {name: brain for env in self._envs.values() for name, brain in env.brains.items()}

    @property
    def reset_parameters(self) -> Mapping[str, float]:
        """What environment 0 announced, with what it was given since."""
        return {**self._envs[EnvId(0)].reset_parameters, **self._config[0]}

    def close(self) -> None:
        """End all environments and actors. A second call does nothing."""
        system, self._system = self._system, None
        try:
            if system is not None:
                self._end(system)
        finally:
            if self._claim is not None:
                self._claim.release()

    def _end(self, system: JoinedSystem) -> None:
        try:
            for worker in {each.worker for each in self._envs.values()}:
                stop = StopRequest(run=self._run, reason="closed", saves=False, deadline_s=CLOSE_S / 2)
                system.send_from_outside(worker_role(worker), stop)
        finally:
            system.close(CLOSE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- inside

    @property
    def _the_system(self) -> JoinedSystem:
        if self._system is None:
            msg = "the ActorEnvManager is closed"
            raise UsageError(msg)
        return self._system

    def _all_answered(self) -> bool:
        return all(each.info is not None for each in self._envs.values())

    def _taken_info(self, env: _Env) -> StepInfo:
        assert env.info is not None
        info, env.info, env.awaits = env.info, None, False
        return info

    def _grant(self, env_id: EnvId, env: _Env) -> EnvGrant:
        return EnvGrant(
            env_id=env_id,
            incarnation=env.incarnation,  # type: ignore[arg-type] # as it came in WorkerReady
            reset_id=env.reset_id,
            until_step=env.taken + 1,
            accepted_step=env.taken,
        )

    def _send_grant(self, worker: int, granted: tuple[EnvGrant, ...]) -> None:
        grant = StepGrant(run=self._run, grants=granted, versions=dict(self._versions), block_steps=1)
        self._the_system.send_from_outside(worker_role(worker), grant)

    def _ask_reset(self, env_id: EnvId, env: _Env) -> None:
        env.reset_id += 1
        request = ResetRequest(
            run=self._run,
            env_id=env_id,
            incarnation=env.incarnation,  # type: ignore[arg-type] # as it came in WorkerReady
            reset_id=env.reset_id,
            parameters=self._config[0],
            train_mode=self._config[1],
        )
        self._the_system.send_from_outside(worker_role(env.worker), request)

    def _wait(self, is_done: Callable[[], bool], limit_s: float, what: str) -> None:
        """Take messages until `is_done`; each restart of a player extends the limit by what a start may take."""
        deadline_s = time.monotonic() + limit_s
        while not is_done():
            left_s = deadline_s - time.monotonic()
            cause = self._the_system.lost()
            if cause:
                raise ActorProtocolError(f"{cause} during a {what}")
            if left_s <= 0:
                waiting = [env_id for env_id, env in self._envs.items() if not env.is_ready or env.info is None]
                msg = f"environments {waiting} have not answered a {what} in {limit_s:.1f} s; raise the time limits"
                raise PlayerTimeoutError(msg)
            message = self._the_system.listen(min(left_s, 0.5))
            if message is not None and self._took(message):
                deadline_s = max(deadline_s, time.monotonic() + sum(self._limits_s))

    def _took(self, message: object) -> bool:
        """Take one message; True when a player has to be waited for anew."""
        match message:
            case WorkerReady():
                self._ready(message)
            case BrainsFound():
                self._envs[message.env_id].brains.update({each.brain_name: each for each in message.brains})
            case StepInfosTaken():
                self._infos(message)
            case PlayerLost():
                self._envs[message.env_id].is_ready = False
                return True
            case WorkerFailed():
                for env_id, _ in message.environments:
                    self._envs[env_id].is_ready = False
                return True
            case HolderRestarted():
                for update in self._updates.values():
                    self._the_system.send_from_outside(HOLDER, update)
            case RestartDenied(cause=cause):
                raise PlayerError(cause)
        return False

    def _ready(self, message: WorkerReady) -> None:
        env = self._envs[message.env_id]
        if message.incarnation <= env.incarnation:
            return
        was_reset = env.reset_id >= 0
        env.incarnation, env.reset_id, env.taken, env.is_ready = message.incarnation, -1, 0, True
        env.reset_parameters = message.reset_parameters or {}
        if env.awaits or was_reset:
            self._ask_reset(message.env_id, env)

    def _infos(self, message: StepInfosTaken) -> None:
        env = self._envs[message.env_id]
        if (message.incarnation, message.reset_id) != (env.incarnation, env.reset_id):
            return
        info = cloudpickle.loads(message.body)
        if message.env_step >= 0:
            env.taken = message.env_step + 1
        env.info = info


def _open(plan: RunPlan, kind: Literal["processes", "inline"]) -> JoinedSystem:
    if kind == "inline":
        from runtime.actors.inline import InlineSystem  # noqa: PLC0415 - only one of the systems is loaded

        return InlineSystem(plan)
    from runtime.actors.run_system import ProcessSystem  # noqa: PLC0415
    from runtime.actors.system import open_actor_system  # noqa: PLC0415

    return ProcessSystem(open_actor_system(run_id=plan.run, log_file=None), plan)


def _ports(count: int, base_port: int | None) -> tuple[dict[EnvId, int], PortClaim | None]:
    """A block of ports, from `base_port` or the first free one after 5005, and the claim to it."""
    base = BASE_PORT if base_port is None else base_port
    claim = claim_ports(range(base, base + count))
    while claim is None and base_port is None and base + 2 * count <= PORT_MAX:
        base += count
        claim = claim_ports(range(base, base + count))
    return {EnvId(each): base + each for each in range(count)}, claim
