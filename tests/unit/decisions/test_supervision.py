"""What the Supervisor tells, whom it takes for hung, and what the controller counts of it."""

from dataclasses import replace

import pytest

from runtime.decisions.controller import ControllerCore
from runtime.decisions.controller_state import ControllerOptions
from runtime.decisions.effects import (
    CONTROLLER,
    HOLDER,
    Finish,
    KillPart,
    PartExited,
    PartReady,
    Role,
    Send,
    SpawnPart,
    TimerFired,
    worker_role,
)
from runtime.decisions.ledger import EnvRecord
from runtime.decisions.policy_holder import From
from runtime.decisions.restarts import RestartLimits
from runtime.decisions.supervisor import SupervisorCore, SupervisorOptions, status_of
from runtime.experience.brains import EnvId, Incarnation
from runtime.messages import (
    EnvAssignment,
    HolderFailed,
    LossKind,
    PlayerLost,
    PolicyOverdue,
    StartPlayer,
    StartWorker,
    Status,
    Stopped,
    StopRequest,
    WorkerAlive,
    WorkerFailed,
    WorkerNote,
    WorkerReady,
)

RUN = "r"
WORKER = worker_role(0)
TEMPLATE = StartWorker(
    run=RUN,
    worker=0,
    environments=(),
    env_factory=b"",
    run_seed=1,
    start_timeout_s=10.0,
    step_timeout_s=10.0,
    block_steps_max=10,
)
OPTIONS = SupervisorOptions(
    run=RUN,
    worker_envs=((EnvId(0),), (EnvId(1),)),
    template=TEMPLATE,
    ports={},
    limits=RestartLimits(lifetime_max=2),
    silence_s=3.0,
    controller_silence_s=5.0,
)
EMPTY = status_of(SupervisorCore(OPTIONS).state)


class Bench:
    """A Supervisor whose parts are all ready, and who has heard of the controller."""

    def __init__(self, *, has_started: bool = True) -> None:
        self.core = SupervisorCore(OPTIONS)
        self.core.begin()
        if has_started:
            for role in (CONTROLLER, HOLDER, worker_role(0), worker_role(1)):
                self.take(PartReady(role, 0, 1))
            self.take(EMPTY)

    def take(self, message: object) -> tuple[object, ...]:
        return self.core.handle(From(None, message), 0.0)

    def ticks(self, count: int, *, speaks: tuple[object, ...] = ()) -> list[object]:
        """So many seconds of the Supervisor's own, in each of which these messages come; all effects."""
        effects: list[object] = []
        for _ in range(count):
            for message in speaks:
                effects += self.take(message)
            effects += self.take(TimerFired("watch"))
        return effects

    @property
    def lines(self) -> list[str]:
        return [text for _, text in status_of(self.core.state).lines]


def alive(worker: int) -> WorkerAlive:
    return WorkerAlive(run=RUN, worker=worker)


def lost(kind: LossKind = "died", cause: str = "its process (pid 7) ended", incarnation: int = 0) -> PlayerLost:
    return PlayerLost(
        run=RUN,
        worker=0,
        env_id=EnvId(0),
        incarnation=Incarnation(incarnation),
        phase="step",
        kind=kind,
        cause=cause,
        unreported_steps=1,
    )


def with_lines(*texts: str, first: int = 0) -> Status:
    return replace(EMPTY, lines=tuple(enumerate(texts, first)))


def kills_in(effects: object) -> list[Role]:
    assert isinstance(effects, list | tuple)
    return [each.role for each in effects if isinstance(each, KillPart)]


def test_lines_of_the_supervisor_and_the_controller_make_one_sequence() -> None:
    bench = Bench()
    bench.take(with_lines("one", "two"))
    bench.take(lost())
    bench.take(with_lines("two", "three", first=1))
    told = ["one", "two", "[WARNING] environment 0 (incarnation 0): its process (pid 7) ended"]
    told += ["[WARNING] environment 0 is started again (restart 1 of 2)", "three"]
    assert bench.lines == told
    assert [number for number, _ in status_of(bench.core.state).lines] == list(range(5))


def test_a_loss_is_told_before_the_controller_has_started() -> None:
    bench = Bench(has_started=False)
    effects = bench.take(PartExited(WORKER, 0, "its process (pid 8) has ended"))
    assert SpawnPart(WORKER, 1) in effects
    assert bench.lines == ["[WARNING] EnvWorker 0: its process (pid 8) has ended; it is started again (restart 1 of 2)"]


def test_notes_of_workers_are_told_by_their_level() -> None:
    bench = Bench()
    bench.take(WorkerNote(run=RUN, worker=0, level="note", text="slow"))
    bench.take(WorkerNote(run=RUN, worker=0, level="fault", text="broken"))
    assert bench.lines == ["[INFO] slow", "[WARNING] broken"]


def test_a_worker_that_is_silent_is_killed_and_one_that_speaks_is_not() -> None:
    bench = Bench()
    effects = bench.ticks(3, speaks=(alive(1), EMPTY))
    assert kills_in(effects) == [WORKER]
    assert bench.lines == ["[WARNING] EnvWorker 0 has said nothing for 3 s; it is taken for hung, and ended"]


def test_a_worker_that_says_that_it_will_be_busy_is_taken_for_hung_that_much_later() -> None:
    bench = Bench()
    bench.take(WorkerAlive(run=RUN, worker=0, busy_s=6.0))
    assert kills_in(bench.ticks(8, speaks=(alive(1), EMPTY))) == []
    assert kills_in(bench.ticks(1, speaks=(alive(1), EMPTY))) == [WORKER]
    bench = Bench()
    bench.take(WorkerAlive(run=RUN, worker=0, busy_s=6.0))
    bench.take(alive(0))
    assert kills_in(bench.ticks(3, speaks=(alive(1), EMPTY))) == [WORKER]


def test_a_worker_is_not_watched_before_it_is_ready_nor_after_it_has_stopped() -> None:
    bench = Bench()
    bench.take(Stopped(run=RUN, part="worker 1"))
    bench.take(PartExited(WORKER, 0, "gone"))
    assert kills_in(bench.ticks(10, speaks=(EMPTY,))) == []
    bench.take(PartReady(WORKER, 1, 9))
    assert kills_in(bench.ticks(3, speaks=(EMPTY,))) == [WORKER]


@pytest.mark.parametrize("before", [alive(0), WorkerAlive(run=RUN, worker=0, busy_s=60.0)])
def test_a_worker_that_was_started_again_is_not_blamed_for_the_silence_of_the_one_before(before: WorkerAlive) -> None:
    bench = Bench()
    bench.take(before)
    assert kills_in(bench.ticks(2, speaks=(alive(1), EMPTY))) == []
    bench.take(PartExited(WORKER, 0, "gone"))
    bench.take(PartReady(WORKER, 1, 9))
    assert kills_in(bench.ticks(2, speaks=(alive(1), EMPTY))) == []
    assert kills_in(bench.ticks(1, speaks=(alive(1), EMPTY))) == [WORKER]


def test_silence_is_counted_in_ticks_and_not_by_the_clock() -> None:
    bench = Bench()
    for message in (TimerFired("watch"), TimerFired("watch")):
        bench.core.handle(From(None, message), 1e6)
    assert bench.lines == []


def test_a_controller_that_is_silent_ends_the_run() -> None:
    bench = Bench()
    effects = bench.ticks(5, speaks=(alive(0), alive(1)))
    assert any(isinstance(each, Finish) for each in effects)
    status = status_of(bench.core.state)
    assert (status.exit_reason, status.exit_code) == ("trainer_failure", 4)
    assert "it has said nothing for 5 s" in status.cause


@pytest.mark.parametrize("is_ready", [False, True])
def test_a_stop_before_the_controller_has_begun_ends_at_once(*, is_ready: bool) -> None:
    bench = Bench(has_started=False)
    if is_ready:
        bench.take(PartReady(CONTROLLER, 0, 1))
    effects = bench.take(StopRequest(run=RUN, reason="interrupted", saves=True, deadline_s=7.0))
    assert any(isinstance(each, Finish) for each in effects)
    assert status_of(bench.core.state).exit_code == 130


def test_a_stop_waits_for_a_controller_that_has_begun() -> None:
    bench = Bench()
    stop = StopRequest(run=RUN, reason="interrupted", saves=True, deadline_s=7.0)
    assert Send(CONTROLLER, stop) in bench.take(stop)
    assert status_of(bench.core.state).exit_reason == ""
    bench.take(TimerFired("stop"))
    assert status_of(bench.core.state).exit_code == 130


def test_a_worker_that_is_ready_is_passed_on_after_the_loss_of_its_predecessor() -> None:
    ready = WorkerReady(run=RUN, worker=0, env_id=EnvId(0), incarnation=Incarnation(1), pid=1, player_pid=2)
    assert Bench().take(ready) == (Send(CONTROLLER, ready),)


def test_only_a_policy_holder_that_is_ready_is_killed_for_being_overdue() -> None:
    bench = Bench()
    overdue = PolicyOverdue(run=RUN, worker=1, behavior="B", version=3, waited_s=60.0)
    assert kills_in(bench.take(overdue)) == [HOLDER]
    bench.take(PartExited(HOLDER, 0, "its process (pid 5) has ended"))
    assert kills_in(bench.take(overdue)) == []
    assert "has not sent version 3 of 'B' to EnvWorker 1 for 60 s" in bench.lines[0]


def test_the_loss_of_the_policy_holder_is_told_and_counted() -> None:
    bench = Bench()
    effects = bench.take(PartExited(HOLDER, 0, "its process (pid 5) has ended"))
    assert (
        Send(CONTROLLER, HolderFailed(run=RUN, incarnation=Incarnation(0), cause="its process (pid 5) has ended"))
        in effects
    )
    assert bench.lines == [
        "[WARNING] the PolicyHolder: its process (pid 5) has ended; it is started again (restart 1 of 2)"
    ]
    controller = ControllerCore(ControllerOptions(run=RUN, environments=1))
    controller.handle(HolderFailed(run=RUN, incarnation=Incarnation(0), cause=""), 0.0)
    assert controller.state.holder_restarts == 1


def test_a_part_that_dies_when_it_has_stopped_is_told_and_left_alone() -> None:
    bench = Bench()
    word = Stopped(run=RUN, part="worker 0")
    bench.take(word)
    # The controller may not have had its last steps and its last word, and would wait for them.
    cause = "its process (pid 8) has ended"
    held = ((EnvId(0), Incarnation(0)),)
    failed = WorkerFailed(run=RUN, worker=0, environments=held, cause=cause, is_restarted=False, restarts={EnvId(0): 0})
    assert bench.take(PartExited(WORKER, 0, cause)) == (Send(CONTROLLER, failed),)
    assert bench.lines == ["[WARNING] EnvWorker 0: its process (pid 8) has ended; it was not needed any more"]


def test_a_loss_while_the_run_ends_is_told_and_nothing_is_started() -> None:
    bench = Bench()
    bench.take(StopRequest(run=RUN, reason="interrupted", saves=True, deadline_s=7.0))
    assert bench.take(lost()) == ()
    effects = bench.take(PartExited(WORKER, 0, "its process (pid 8) has ended"))
    assert [type(each.message) for each in effects if isinstance(each, Send)] == [WorkerFailed]
    assert not any(isinstance(each, SpawnPart) for each in effects)
    assert bench.lines[-1] == "[WARNING] EnvWorker 0: its process (pid 8) has ended; the run is ending"


def test_what_ends_the_run_is_told_with_the_end_only() -> None:
    bench = Bench()
    bench.take(lost("content", "an observation is nan"))
    assert bench.lines == []


def test_the_controller_hears_of_a_restart_when_it_is_ordered() -> None:
    effects = Bench().take(lost())
    orders = [each for each in effects if isinstance(each, Send) and isinstance(each.message, StartPlayer)]
    assert [each.to for each in orders] == [WORKER, CONTROLLER]


def test_the_controller_hears_how_often_a_player_was_started_again() -> None:
    bench = Bench()
    orders = [each for each in bench.take(lost()) if isinstance(each, Send) and isinstance(each.message, StartPlayer)]
    assert [each.message.environment.restarts for each in orders if isinstance(each.message, StartPlayer)] == [1, 1]
    (failed,) = (
        each.message
        for each in bench.take(PartExited(WORKER, 0, "killed"))
        if isinstance(each, Send) and isinstance(each.message, WorkerFailed)
    )
    assert failed.restarts == {EnvId(0): 1}


def test_a_restart_counts_even_when_the_run_ends_before_the_player_is_back() -> None:
    controller = ControllerCore(ControllerOptions(run=RUN, environments=1))
    environment = EnvAssignment(env_id=EnvId(0), incarnation=Incarnation(1), seed=1, port=0, restarts=1)
    controller.handle(StartPlayer(run=RUN, environment=environment), 0.0)
    controller.handle(StartPlayer(run=RUN, environment=environment), 0.0)
    assert controller.state.envs[EnvId(0)].restarts == 1


def test_the_grant_of_a_lost_worker_is_unreported_also_when_its_player_was_lost_before() -> None:
    controller = ControllerCore(ControllerOptions(run=RUN, environments=1))
    granted = EnvRecord(
        env_id=EnvId(0), worker=0, incarnation=Incarnation(0), state="stepping", received=4, until=10, restarts=0
    )
    controller.state = replace(controller.state, envs={EnvId(0): granted}, agents_max=3)
    # The player's death was told to the Supervisor, which ordered incarnation 1; the word to us died with the worker.
    failed = WorkerFailed(run=RUN, worker=0, environments=((EnvId(0), Incarnation(1)),), cause="killed")
    controller.handle(failed, 0.0)
    assert controller.state.counters.unreported_max == 18


def test_a_worker_that_is_being_started_again_is_not_waited_for_at_the_end() -> None:
    controller = ControllerCore(ControllerOptions(run=RUN, environments=1))
    ready = WorkerReady(run=RUN, worker=0, env_id=EnvId(0), incarnation=Incarnation(0), pid=1, player_pid=2)
    controller.handle(ready, 0.0)
    failed = WorkerFailed(run=RUN, worker=0, environments=((EnvId(0), Incarnation(0)),), cause="killed")
    controller.handle(failed, 0.0)
    effects = controller.handle(StopRequest(run=RUN, reason="interrupted", saves=False, deadline_s=7.0), 0.0)
    assert any(isinstance(each, Send) and isinstance(each.message, Stopped) for each in effects)
