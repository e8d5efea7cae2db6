"""The five machines, each in each of its phases, and one message of every kind that it may meet there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from runtime.decisions import effects as fx
from runtime.decisions.controller_state import ControllerPhase
from runtime.decisions.env_worker import EnvWorkerCore
from runtime.decisions.env_worker_state import Phase, Slot
from runtime.decisions.policy_holder import From, PolicyHolderCore
from runtime.decisions.restarts import RestartLimits
from runtime.decisions.supervisor import SupervisorCore, SupervisorOptions
from runtime.experience.brains import BrainInfo, EnvId, Incarnation, empty_rows
from runtime.messages import (
    ActionReply,
    ActionRequest,
    HolderFailed,
    HolderRestarted,
    PolicyOverdue,
    PolicyRequest,
    RestartDenied,
    RestartPlayersRequest,
    StatsReported,
    StatusRequest,
    StepInfosTaken,
    WorkerAlive,
    WorkerNote,
)
from tests.support.bench_controller import ControllerBench, in_round, round_of
from tests.support.bench_worker import WorkerBench, closed, connected, failed, replied, stepped
from tests.support.builders_messages import (
    RUN,
    WALKER,
    assignment,
    block,
    brain,
    brains_found,
    env_grant,
    env_reset,
    player_lost,
    policy,
    progress,
    release,
    reset_request,
    start_player,
    start_worker,
    status,
    step_grant,
    steps_taken,
    stop_request,
    stopped,
    worker_failed,
    worker_ready,
)
from tests.support.machine_tables import Machine, Seat, Table, tabulated

HOLDER_BACK = HolderRestarted(run=RUN, incarnation=Incarnation(1))
ACTION_REQUEST = ActionRequest(
    run=RUN,
    request_id=1,
    behavior=WALKER,
    brain_info=BrainInfo(*empty_rows(brain())),
    action_spec=brain().action_spec,
)
SAVED = fx.SaveFinished(is_final=True)
WORKER_STOPPED = stopped("worker 0", reason="")


# ---- the slot of a player


def slot_seat(phase: Phase) -> Seat:
    """A worker of one environment, which is in this phase; the policy is there."""
    core = EnvWorkerCore(start_worker((assignment(),)), pid=1)
    core.begin()
    core.handle(policy(), 0.0)
    slot = Slot(assignment=assignment(), phase=phase, reset_id=0, pending={WALKER: 1})
    stop = stop_request() if phase in {Phase.CLOSING, Phase.CLOSED} else None
    core.state = replace(core.state, slots={EnvId(0): slot}, stop=stop, is_finished=phase is Phase.CLOSED)
    return worker_seat(core, lambda: core.state.slots[EnvId(0)].phase.value)


def worker_seat(core: EnvWorkerCore, phase: Callable[[], str]) -> Seat:
    """A seat for an EnvWorker."""
    return Seat(lambda message: core.handle(message, 0.0), phase, lambda: core.state.dropped)


ABOUT_PLAYERS: Mapping[str, object] = {
    "PlayerConnected": connected(),
    "PlayerReplied": replied(),
    "PlayerStepped": stepped(),
    "PlayerFailed": failed(),
    "PlayerClosed": closed(),
    "ResetRequest": reset_request(reset_id=1),
    "StepGrant": step_grant(env_grant(until=3)),
    "StartPlayer": start_player(incarnation=1),
    "StopRequest": stop_request(),
    "TimerFired(stop)": fx.TimerFired("stop"),
}
SLOT = Machine(
    title="The slot of a player, in its EnvWorker",
    module="runtime/decisions/env_worker_state.py",
    about="Every environment of an EnvWorker is a slot. Here the worker has one, and the policy that it is granted.",
    phases={phase.value: partial(slot_seat, phase) for phase in Phase},
    messages=ABOUT_PLAYERS,
)


# ---- EnvWorker


def _working() -> WorkerBench:
    bench = WorkerBench(2).ready(0).ready(1)
    bench.take(policy(), step_grant(env_grant(0, until=1), env_grant(1, until=9), gathers=True))
    return bench


def _gathering() -> WorkerBench:
    bench = _working()
    bench.take(replied(0))
    return bench


def _stopping() -> WorkerBench:
    bench = _gathering()
    bench.take(stop_request(), fx.TimerFired("stop"), closed(1))
    return bench


def _finished() -> WorkerBench:
    bench = _stopping()
    bench.take(closed(0))
    return bench


def _worker(make: Callable[[], WorkerBench]) -> Callable[[], Seat]:
    def begin() -> Seat:
        core = make().core

        def phase() -> str:
            state = core.state
            if state.is_finished:
                return "finished"
            if state.stop is not None:
                return "stopping"
            return "gathering" if state.is_gathering else "working"

        return worker_seat(core, phase)

    return begin


WORKER = Machine(
    title="EnvWorker",
    module="runtime/decisions/env_worker.py",
    about=(
        "A worker of two environments. Working: both take a step, which is the last one granted to environment 0. "
        "Gathering: its block waits for the other's. Stopping: environment 1 is closed already. "
        "What is about a player is about that of environment 0."
    ),
    phases={
        "working": _worker(_working),
        "gathering": _worker(_gathering),
        "stopping": _worker(_stopping),
        "finished": _worker(_finished),
    },
    messages={
        **ABOUT_PLAYERS,
        "PolicyUpdate": policy(1),
        "HolderRestarted": HOLDER_BACK,
        "TimerFired(heartbeat)": fx.TimerFired("heartbeat"),
        "TimerFired(gather)": fx.TimerFired("gather"),
        "TimerFired(policy)": fx.TimerFired(("policy", WALKER)),
    },
)


# ---- PolicyHolder


def _holder(*messages: object) -> Callable[[], Seat]:
    def begin() -> Seat:
        core = PolicyHolderCore(RUN)
        for each in messages:
            core.handle(From("worker", each), 0.0)
        return Seat(
            lambda message: core.handle(From("asker", message), 0.0),
            lambda: "with a policy" if core.state.policies else "empty",
            lambda: core.state.dropped,
        )

    return begin


ASKS = PolicyRequest(run=RUN, behavior=WALKER, version=0, worker=0)
HOLDER = Machine(
    title="PolicyHolder",
    module="runtime/decisions/policy_holder.py",
    about="One EnvWorker has asked before and is a subscriber. The policy that is held has version 1.",
    phases={"empty": _holder(ASKS), "with a policy": _holder(ASKS, policy(1))},
    messages={
        "PolicyUpdate(version 2)": policy(2),
        "PolicyUpdate(version 1)": policy(1),
        "PolicyRequest": ASKS,
        "PolicyRequest(version 3)": replace(ASKS, version=3),
        "ActionRequest": ACTION_REQUEST,
        "StopRequest": stop_request(),
    },
)


# ---- TrainerController


def _controller_in(phase: ControllerPhase) -> ControllerBench:
    if phase is ControllerPhase.GATHERING:
        bench = ControllerBench()
        bench.take(worker_ready(), brains_found())
        return bench
    bench = in_round(1)
    if phase is ControllerPhase.SETTLING:
        bench.progress = progress(is_ready=True)
        round_of(bench)
    if phase in {ControllerPhase.STOPPING, ControllerPhase.SAVING, ControllerPhase.ENDED}:
        bench.take(stop_request())
    if phase in {ControllerPhase.SAVING, ControllerPhase.ENDED}:
        bench.take(WORKER_STOPPED)
    if phase is ControllerPhase.ENDED:
        bench.take(SAVED)
    assert bench.state.phase is phase
    return bench


def controller_seat(phase: ControllerPhase) -> Seat:
    """A controller of one environment in this phase. What it asked of the learner is answered in its own time."""
    core = _controller_in(phase).core

    def take(message: object) -> tuple[object, ...]:
        # The learner speaks of blocks only when it was given some.
        if isinstance(message, fx.BlocksAccepted) and phase is ControllerPhase.GATHERING:
            core.handle(env_reset(), 0.0)
        elif isinstance(message, fx.BlocksAccepted):
            core.state = replace(core.state, accepting=1, updating=())
        return core.handle(message, 0.0)

    return Seat(take, lambda: core.state.phase.value, lambda: sum(core.state.counters.dropped.values()))


CONTROLLER = Machine(
    title="TrainerController",
    module="runtime/decisions/controller.py",
    about=(
        "A synchronous run of one environment, whose grants are four steps long. At first it has connected and is to "
        "be reset; where the learner has accepted blocks then, they are those of the reset."
    ),
    phases={phase.value: partial(controller_seat, phase) for phase in ControllerPhase},
    messages={
        "WorkerReady": worker_ready(0, 1),
        "BrainsFound": brains_found(),
        "BrainAdded": fx.BrainAdded(brain("Other"), release(0, "Other"), progress("Other"), 50),
        "EnvReset": env_reset(),
        "StepsTaken": steps_taken(block(steps=4, agent_steps=4)),
        "BlocksAccepted": fx.BlocksAccepted(progress()),
        "BlocksAccepted(buffer full)": fx.BlocksAccepted(progress(is_ready=True)),
        "UpdateFinished": fx.UpdateFinished(release(1), progress(version=1)),
        "SaveFinished": fx.SaveFinished(is_final=False),
        "SaveFinished(last)": SAVED,
        "StatsReported": StatsReported(run=RUN, worker=0, stats=()),
        "PlayerLost": player_lost(),
        "StartPlayer": start_player(),
        "WorkerFailed": worker_failed((0, 0)),
        "HolderFailed": HolderFailed(run=RUN, incarnation=Incarnation(0), cause="it has ended"),
        "HolderRestarted": HOLDER_BACK,
        "LearnerFailed": fx.LearnerFailed("no weights", 4),
        "RestartDenied": RestartDenied(run=RUN, cause="too often"),
        "StopRequest": stop_request(),
        "Stopped(worker)": WORKER_STOPPED,
        "TimerFired(status)": fx.TimerFired("status"),
        "TimerFired(stop)": fx.TimerFired("stop"),
    },
    never=frozenset(
        (phase.value, name)
        for name, phases in {
            "BlocksAccepted": {ControllerPhase.SAVING},
            "BlocksAccepted(buffer full)": {ControllerPhase.SAVING},
            "UpdateFinished": {ControllerPhase.GATHERING, ControllerPhase.SAVING},
            "SaveFinished": {ControllerPhase.GATHERING, ControllerPhase.SAVING},
            "SaveFinished(last)": set(ControllerPhase) - {ControllerPhase.SAVING, ControllerPhase.ENDED},
        }.items()
        for phase in phases
    ),
)


# ---- Supervisor

READY = tuple(fx.PartReady(role, 0, 1) for role in (fx.CONTROLLER, fx.HOLDER, fx.worker_role(0)))


def _supervisor(*messages: object) -> Callable[[], Seat]:
    def begin() -> Seat:
        limits = RestartLimits(lifetime_max=5, rate_max=5, period_s=60.0)
        options = SupervisorOptions(
            run=RUN, worker_envs=((EnvId(0),),), template=start_worker(), ports={}, limits=limits
        )
        core = SupervisorCore(options)
        core.begin()
        for each in messages:
            core.handle(From("somebody", each), 0.0)

        def phase() -> str:
            state = core.state
            if state.outcome is not None:
                return "over"
            if state.stop is not None:
                return "stopping"
            if state.denied:
                return "denied"
            return "running" if fx.CONTROLLER in state.ready else "starting"

        return Seat(lambda message: core.handle(From("asker", message), 0.0), phase, lambda: core.state.dropped)

    return begin


RUNNING = (*READY, status())
SUPERVISOR = Machine(
    title="Supervisor",
    module="runtime/decisions/supervisor.py",
    about="A run of one EnvWorker with one environment; no budget is spent yet. Denied: a loss that no start cures.",
    phases={
        "starting": _supervisor(),
        "running": _supervisor(*RUNNING),
        "denied": _supervisor(*RUNNING, player_lost(kind="content")),
        "stopping": _supervisor(*RUNNING, stop_request()),
        "over": _supervisor(*RUNNING, stopped()),
    },
    messages={
        "PartReady(controller)": READY[0],
        "PartReady(holder)": READY[1],
        "PartReady(worker)": READY[2],
        "PartExited(controller)": fx.PartExited(fx.CONTROLLER, 0, "it has ended"),
        "PartExited(holder)": fx.PartExited(fx.HOLDER, 0, "it has ended"),
        "PartExited(worker)": fx.PartExited(fx.worker_role(0), 0, "it has ended"),
        "PlayerLost(died)": player_lost(),
        "PlayerLost(content)": player_lost(kind="content"),
        "WorkerReady": worker_ready(),
        "WorkerAlive": WorkerAlive(run=RUN, worker=0),
        "WorkerNote": WorkerNote(run=RUN, worker=0, level="note", text="a line"),
        "PolicyOverdue": PolicyOverdue(run=RUN, worker=0, behavior=WALKER, version=1, waited_s=60.0),
        "RestartPlayersRequest": RestartPlayersRequest(run=RUN),
        "Status": status(),
        "StatusRequest": StatusRequest(run=RUN, request_id=1),
        "StopRequest": stop_request(),
        "Stopped(controller)": stopped(),
        "Stopped(worker)": WORKER_STOPPED,
        "TimerFired(watch)": fx.TimerFired("watch"),
        "TimerFired(stop)": fx.TimerFired("stop"),
        "TimerFired(start)": fx.TimerFired(("start", fx.worker_role(0), 0)),
    },
)

MACHINES = (SLOT, WORKER, HOLDER, CONTROLLER, SUPERVISOR)
FOR_NONE_OF_THEM: Mapping[str, object] = {
    "StartWorker": start_worker(),
    "StepInfosTaken": StepInfosTaken(
        run=RUN, worker=0, env_id=EnvId(0), incarnation=Incarnation(0), reset_id=0, env_step=-1, body=b""
    ),
    "ActionReply": ActionReply(run=RUN, request_id=1, behavior=WALKER, version=0, action_info=None, refusal=""),
}


def tables() -> tuple[Table, ...]:
    """All machines, run."""
    others = dict(FOR_NONE_OF_THEM)
    for machine in MACHINES:
        others.update(machine.messages)
    return tuple(tabulated(machine, others) for machine in MACHINES)
