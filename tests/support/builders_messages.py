"""Messages and facts for tests of the decision machines: valid ones, with only what a test is about spelled out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from runtime.decisions.effects import Role, Send, worker_role
from runtime.experience.brains import ActionSpec, BrainName, BrainParameters, EnvId, Incarnation, ObservationSpec
from runtime.experience.columns import StepBlock
from runtime.learner import BrainProgress, PolicyRelease
from runtime.messages import (
    BrainsFound,
    EnvAssignment,
    EnvGrant,
    EnvReset,
    LossKind,
    PlayerLost,
    PolicyUpdate,
    ResetRequest,
    StartPlayer,
    StartWorker,
    Status,
    StepGrant,
    StepsTaken,
    Stopped,
    StopRequest,
    WorkerFailed,
    WorkerReady,
)

RUN = "run"
OTHER_RUN = "another run"
WALKER = "Walker"

Message = TypeVar("Message")


def sent(effects: Iterable[object], kind: type[Message], to: Role | None = None) -> list[Message]:
    """The messages of one type among the effects, to one part or to anybody; a grant inside of a policy counts too."""
    found = [each for each in _with_riders(effects) if to in {None, each.to}]
    return [each.message for each in found if isinstance(each.message, kind)]


def _with_riders(effects: Iterable[object]) -> Iterator[Send]:
    for each in effects:
        if isinstance(each, Send):
            yield each
            if isinstance(each.message, PolicyUpdate):
                yield from (Send(worker_role(worker), grant) for worker, grant in each.message.grants.items())


def of_type(effects: Iterable[object], kind: type[Message]) -> list[Message]:
    """The effects of one type."""
    return [each for each in effects if isinstance(each, kind)]


def brain(name: str = WALKER) -> BrainParameters:
    """A brain with one float to see and one branch of two."""
    return BrainParameters(BrainName(name), (ObservationSpec((1,)),), ActionSpec(0, (2,)))


def assignment(env_id: int = 0, incarnation: int = 0) -> EnvAssignment:
    """An environment for an EnvWorker."""
    return EnvAssignment(env_id=EnvId(env_id), incarnation=Incarnation(incarnation), seed=1, port=0)


def start_worker(
    environments: Iterable[EnvAssignment] = (), *, worker: int = 0, block_steps_max: int = 10
) -> StartWorker:
    """A worker with these environments, steps within 5 s."""
    return StartWorker(
        run=RUN,
        worker=worker,
        environments=tuple(environments),
        env_factory=b"",
        run_seed=7,
        start_timeout_s=10.0,
        step_timeout_s=5.0,
        block_steps_max=block_steps_max,
    )


def start_player(env_id: int = 0, incarnation: int = 1, *, restarts: int = 0) -> StartPlayer:
    """An order to start a player again, after so many losses."""
    return StartPlayer(run=RUN, environment=replace(assignment(env_id, incarnation), restarts=restarts))


def reset_request(env_id: int = 0, incarnation: int = 0, reset_id: int = 0) -> ResetRequest:
    """An order to reset an environment."""
    return ResetRequest(run=RUN, env_id=EnvId(env_id), incarnation=Incarnation(incarnation), reset_id=reset_id)


def env_grant(
    env_id: int = 0, *, until: int = 1, incarnation: int = 0, reset_id: int = 0, accepted: int = 0
) -> EnvGrant:
    """Credit for one environment."""
    return EnvGrant(
        env_id=EnvId(env_id),
        incarnation=Incarnation(incarnation),
        reset_id=reset_id,
        until_step=until,
        accepted_step=accepted,
    )


def step_grant(
    *grants: EnvGrant,
    versions: Mapping[str, int] | None = None,
    block_steps: int = 10,
    gathers: bool = False,
) -> StepGrant:
    """A grant under version 0 of Walker, unless said otherwise."""
    return StepGrant(
        run=RUN,
        grants=grants,
        versions={WALKER: 0} if versions is None else versions,
        block_steps=block_steps,
        gathers=gathers,
    )


def policy(version: int = 0, behavior: str = WALKER, *, grants: Mapping[int, StepGrant] | None = None) -> PolicyUpdate:
    """A version of a behavior's policy."""
    return PolicyUpdate(run=RUN, behavior=behavior, version=version, kind="onnx", body=b"graph", grants=grants or {})


def release(version: int = 0, behavior: str = WALKER) -> PolicyRelease:
    """The same as the learner gives it."""
    return PolicyRelease(behavior=behavior, version=version, body=b"graph")


def worker_ready(
    env_id: int = 0, incarnation: int = 0, worker: int = 0, *, takes_parameters: bool = False
) -> WorkerReady:
    """A player that has connected."""
    return WorkerReady(
        run=RUN,
        worker=worker,
        env_id=EnvId(env_id),
        incarnation=Incarnation(incarnation),
        pid=11,
        player_pid=12,
        takes_parameters=takes_parameters,
    )


def brains_found(*names: str, env_id: int = 0) -> BrainsFound:
    """Brains that an environment announced."""
    return BrainsFound(
        run=RUN,
        worker=0,
        env_id=EnvId(env_id),
        incarnation=Incarnation(0),
        brains=tuple(brain(name) for name in names or (WALKER,)),
    )


def block(
    env_id: int = 0,
    *,
    first: int = 0,
    steps: int = 1,
    agent_steps: int = 1,
    incarnation: int = 0,
    reset_id: int = 0,
    version: int = 0,
    pending: Mapping[str, int] | None = None,
) -> StepBlock:
    """Steps of one environment in which Walker acted; columns are left out."""
    return StepBlock(
        env_id=EnvId(env_id),
        incarnation=Incarnation(incarnation),
        reset_id=reset_id,
        first_step=first,
        steps=steps,
        versions={WALKER: version} if steps else {},
        decisions=agent_steps,
        agent_steps=agent_steps,
        pending={WALKER: 1} if pending is None else pending,
        brains={},
    )


def steps_taken(*blocks: StepBlock, worker: int = 0) -> StepsTaken:
    """Blocks of a worker."""
    return StepsTaken(run=RUN, worker=worker, blocks=blocks)


def env_reset(
    env_id: int = 0, *, incarnation: int = 0, reset_id: int = 0, pending: Mapping[str, int] | None = None
) -> EnvReset:
    """An environment that was reset."""
    first = block(env_id, steps=0, agent_steps=0, incarnation=incarnation, reset_id=reset_id, pending=pending)
    return EnvReset(run=RUN, worker=0, first=first)


def player_lost(
    env_id: int = 0,
    incarnation: int = 0,
    *,
    worker: int = 0,
    kind: LossKind = "died",
    cause: str = "its process has ended",
    unreported: int = 0,
) -> PlayerLost:
    """A player that is gone."""
    return PlayerLost(
        run=RUN,
        worker=worker,
        env_id=EnvId(env_id),
        incarnation=Incarnation(incarnation),
        phase="step",
        kind=kind,
        cause=cause,
        unreported_steps=unreported,
    )


def worker_failed(*environments: tuple[int, int], worker: int = 0) -> WorkerFailed:
    """A worker that is gone with these environments and their incarnations."""
    held = tuple((EnvId(env_id), Incarnation(incarnation)) for env_id, incarnation in environments)
    return WorkerFailed(run=RUN, worker=worker, environments=held, cause="it has ended")


def progress(
    behavior: str = WALKER,
    *,
    steps: int = 0,
    max_steps: int = 1000,
    buffered: int = 0,
    buffer_size: int = 100,
    is_ready: bool = False,
    version: int = 0,
) -> dict[str, BrainProgress]:
    """How far one behavior is, by its name."""
    each = BrainProgress(
        behavior=behavior,
        steps=steps,
        max_steps=max_steps,
        buffered=buffered,
        buffer_size=buffer_size,
        is_ready_update=is_ready,
        version=version,
        episodes=0,
        mean_reward=None,
        mean_episode_length=None,
    )
    return {behavior: each}


def stop_request(reason: str = "interrupted", *, saves: bool = True, deadline_s: float = 8.0) -> StopRequest:
    """A request to end."""
    return StopRequest(run=RUN, reason=reason, saves=saves, deadline_s=deadline_s)


def stopped(part: str = "controller", *, reason: str = "max_steps", code: int = 0, cause: str = "") -> Stopped:
    """A part that has ended."""
    return Stopped(run=RUN, part=part, exit_reason=reason, exit_code=code, cause=cause)


def status(*lines: tuple[int, str], agent_steps: int = 0) -> Status:
    """What a controller says of itself, with numbered lines."""
    return Status(
        run=RUN,
        env_steps=0,
        agent_steps=agent_steps,
        decisions=0,
        lost_steps={},
        unreported_steps_max=0,
        brains=(),
        environments=(),
        worker_restarts={},
        dropped_messages={},
        lines=lines,
        first_step_s=None,
    )
