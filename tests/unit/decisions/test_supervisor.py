"""The Supervisor: who is started, what is started again, what cannot be, and when the run is over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runtime.decisions.effects import (
    CONTROLLER,
    HOLDER,
    CancelTimer,
    Finish,
    KillPart,
    PartExited,
    PartReady,
    Reply,
    Role,
    Send,
    SetTimer,
    SpawnPart,
    TimerFired,
    worker_role,
)
from runtime.decisions.policy_holder import From
from runtime.decisions.restarts import RestartLimits
from runtime.decisions.supervisor import PART_START_S, WATCH_S, SupervisorCore, SupervisorOptions, status_of
from runtime.decisions.supervisor_state import LINES_MAX, name_of, note
from runtime.errors import ActorProtocolError
from runtime.experience.brains import EnvId
from runtime.messages import (
    HolderRestarted,
    LossKind,
    PlayerLost,
    RestartDenied,
    RestartPlayersRequest,
    StartPlayer,
    StartWorker,
    Status,
    StatusRequest,
    StopRequest,
    WorkerFailed,
)
from runtime.seeds import player_seed
from tests.support.builders_messages import (
    OTHER_RUN,
    RUN,
    env_reset,
    of_type,
    player_lost,
    sent,
    start_worker,
    status,
    stop_request,
    stopped,
)

OPTIONS = SupervisorOptions(
    run=RUN,
    worker_envs=((EnvId(0), EnvId(1)), (EnvId(2),)),
    template=start_worker(),
    ports={EnvId(0): 5005, EnvId(1): 5006},
    limits=RestartLimits(lifetime_max=2, rate_max=-1),
    first_incarnation=3,
)
W0, W1 = worker_role(0), worker_role(1)


class Bench:
    """A Supervisor with all parts ready and a controller that has spoken."""

    def __init__(self, options: SupervisorOptions = OPTIONS, *, ready: tuple[Role, ...] | None = None) -> None:
        self.core = SupervisorCore(options)
        self.begun = self.core.begin()
        for role in (CONTROLLER, HOLDER, W0, W1) if ready is None else ready:
            self.take(PartReady(role, 0, 1))
        if ready is None:
            self.take(status())

    def take(self, message: object, now_s: float = 0.0) -> tuple[object, ...]:
        return self.core.handle(From("somebody", message), now_s)

    def lose(self, env_id: int = 0, *, now_s: float = 0.0, kind: LossKind = "died") -> tuple[object, ...]:
        """The present incarnation of an environment is lost."""
        worker = 1 if env_id == 2 else 0
        incarnation = self.core.state.incarnations[EnvId(env_id)]
        return self.take(player_lost(env_id, incarnation, worker=worker, kind=kind), now_s)

    @property
    def status(self) -> Status:
        return status_of(self.core.state)


def test_every_part_is_started_under_a_deadline() -> None:
    begun = Bench(ready=()).begun
    roles = [each.role for each in of_type(begun, SpawnPart)]
    assert roles == [CONTROLLER, HOLDER, W0, W1]
    assert all(SetTimer(("start", role, 0), PART_START_S) in begun for role in roles)


def test_a_run_whose_loop_is_held_outside_starts_no_controller() -> None:
    begun = Bench(replace(OPTIONS, has_controller=False), ready=()).begun
    assert [each.role for each in of_type(begun, SpawnPart)] == [HOLDER, W0, W1]


def test_a_worker_that_is_ready_is_told_its_environments() -> None:
    effects = Bench(ready=()).take(PartReady(W0, 0, 9))
    assert CancelTimer(("start", W0, 0)) in effects
    (start,) = sent(effects, StartWorker, W0)
    assert (start.worker, start.run, start.block_steps_max) == (0, RUN, 10)
    assert [(each.env_id, each.incarnation, each.port) for each in start.environments] == [(0, 3, 5005), (1, 3, 5006)]
    assert [each.seed for each in start.environments] == [player_seed(7, 0, 3), player_seed(7, 1, 3)]


def test_a_port_is_zero_where_players_have_no_socket() -> None:
    (start,) = sent(Bench(ready=()).take(PartReady(W1, 0, 9)), StartWorker, W1)
    assert [each.port for each in start.environments] == [0]


def test_a_part_of_another_generation_is_not_taken_for_the_one_that_is_awaited() -> None:
    bench = Bench(ready=())
    assert bench.take(PartReady(W0, 1, 9)) == ()
    assert (bench.core.state.dropped, bench.core.state.ready) == (1, frozenset())


def test_a_part_that_does_not_start_in_time_is_killed_and_told() -> None:
    bench = Bench(ready=())
    assert bench.take(TimerFired(("start", W0, 0))) == (KillPart(W0, 0),)
    assert bench.status.lines[-1][1] == "[WARNING] EnvWorker 0 has not started within 45 s; its process is ended"


@pytest.mark.parametrize("generation", [0, 1])
def test_a_deadline_that_no_longer_matters_is_ignored(generation: int) -> None:
    bench = Bench()
    bench.take(PartExited(W0, 0, "gone"))
    bench.take(PartReady(W0, 1, 9))
    assert bench.take(TimerFired(("start", W0, generation))) == ()
    assert bench.take(TimerFired("lunch")) == ()


# ---- players


def test_a_lost_player_is_started_again_with_a_new_incarnation_and_seed() -> None:
    bench = Bench()
    effects = bench.lose(1)
    orders = [sent(effects, StartPlayer, to) for to in (W0, CONTROLLER)]
    assert orders[0] == orders[1]
    ((order,), _) = orders
    assert (order.environment.env_id, order.environment.incarnation, order.environment.port) == (1, 4, 5006)
    assert order.environment.seed == player_seed(7, 1, 4)


def test_a_loss_that_is_told_twice_spends_one_restart() -> None:
    bench = Bench()
    loss = player_lost(0, 3)
    bench.take(loss)
    assert bench.take(loss) == ()
    assert (bench.core.state.dropped, bench.core.state.env_budgets[EnvId(0)].spent) == (1, 1)


def test_a_spent_budget_denies_further_restarts_with_all_causes_once() -> None:
    bench = Bench()
    bench.lose(0, now_s=1.0)
    bench.lose(0, now_s=2.0)
    (denied,) = sent(bench.lose(0, now_s=4.0), RestartDenied, CONTROLLER)
    assert denied.cause == (
        "environment 0 (incarnation 5): its process has ended\n"
        "all 2 restarts are spent (--max-lifetime-restarts); its restarts so far:\n"
        "  3.0 s ago: its process has ended\n  2.0 s ago: its process has ended"
    )
    assert bench.lose(2) == ()


def test_budgets_are_per_environment() -> None:
    bench = Bench()
    for env_id in (0, 1, 2, 0, 1, 2):
        assert sent(bench.lose(env_id), StartPlayer)


@pytest.mark.parametrize("kind", ["protocol", "version", "content", "port", "environment"])
def test_a_loss_that_another_start_cannot_cure_is_denied_at_once(kind: LossKind) -> None:
    bench = Bench()
    effects = bench.lose(0, kind=kind)
    assert [type(each.message) for each in of_type(effects, Send)] == [RestartDenied]
    assert bench.core.state.env_budgets[EnvId(0)].spent == 0
    assert bench.lose(1, kind=kind) == ()


def test_a_player_that_blocks_its_worker_takes_it_along_and_spends_its_budget_once() -> None:
    bench = Bench(replace(OPTIONS, is_blocking=True))
    loss = player_lost(0, 3, kind="timeout")
    assert bench.take(loss) == (KillPart(W0, 0),)
    assert bench.take(loss) == ()
    assert bench.core.state.env_budgets[EnvId(0)].spent == 1
    (failed,) = sent(bench.take(PartExited(W0, 0, "killed")), WorkerFailed)
    assert failed.environments == ((0, 4), (1, 3))


def test_a_player_that_dies_beside_blocking_ones_needs_no_new_worker() -> None:
    bench = Bench(replace(OPTIONS, is_blocking=True))
    assert sent(bench.lose(0), StartPlayer, W0)


def test_a_planned_restart_raises_all_incarnations_and_spends_nothing() -> None:
    bench = Bench()
    effects = bench.take(RestartPlayersRequest(run=RUN))
    started = [(each.to, each.message.environment) for each in of_type(effects, Send) if each.to != CONTROLLER]  # type: ignore[attr-defined]
    assert [(str(to), each.env_id, each.incarnation) for to, each in started] == [
        ("worker 0", 0, 4),
        ("worker 0", 1, 4),
        ("worker 1", 2, 4),
    ]
    assert all(each.spent == 0 for each in bench.core.state.env_budgets.values())


# ---- parts


def test_a_lost_worker_is_started_again_with_new_incarnations() -> None:
    bench = Bench()
    effects = bench.take(PartExited(W0, 0, "killed"), now_s=5.0)
    (failed,) = sent(effects, WorkerFailed, CONTROLLER)
    assert (failed.worker, failed.environments, failed.cause) == (0, ((0, 3), (1, 3)), "killed")
    assert SpawnPart(W0, 1) in effects
    assert SetTimer(("start", W0, 1), PART_START_S) in effects
    (start,) = sent(bench.take(PartReady(W0, 1, 9)), StartWorker, W0)
    assert [each.incarnation for each in start.environments] == [4, 4]
    assert all(each.spent == 0 for each in bench.core.state.env_budgets.values())


def test_an_exit_that_is_told_twice_counts_once() -> None:
    bench = Bench()
    bench.take(PartExited(W0, 0, "killed"))
    assert bench.take(PartExited(W0, 0, "killed")) == ()
    assert bench.core.state.dropped == 1


@pytest.mark.parametrize(("role", "name"), [(W0, "EnvWorker 0"), (HOLDER, "the PolicyHolder")])
def test_a_part_whose_budget_is_spent_ends_the_run(role: Role, name: str) -> None:
    bench = Bench()
    bench.take(PartExited(role, 0, "first"), now_s=1.0)
    bench.take(PartExited(role, 1, "second"), now_s=2.0)
    effects = bench.take(PartExited(role, 2, "third"), now_s=3.0)
    (denied,) = sent(effects, RestartDenied, CONTROLLER)
    assert denied.cause.startswith(f"{name} was lost: third")
    assert "2.0 s ago: first" in denied.cause
    assert "1.0 s ago: second" in denied.cause
    assert not of_type(effects, SpawnPart)


def test_a_new_holder_is_made_known_to_all_who_use_it() -> None:
    bench = Bench()
    bench.take(PartExited(HOLDER, 0, "killed"))
    effects = bench.take(PartReady(HOLDER, 1, 9))
    assert [str(each.to) for each in of_type(effects, Send)] == ["controller", "worker 0", "worker 1"]
    assert {each.incarnation for each in sent(effects, HolderRestarted)} == {1}


def test_a_lost_controller_ends_the_run() -> None:
    bench = Bench()
    assert Finish() in bench.take(PartExited(CONTROLLER, 0, "killed"))
    found = bench.status
    assert (found.exit_reason, found.exit_code) == ("trainer_failure", 4)
    assert found.cause == "the TrainerController was lost: killed; the last save, if there is one, stands for --resume"


def test_the_watch_goes_on_as_long_as_the_run() -> None:
    assert SetTimer("watch", WATCH_S) in Bench().begun
    assert Bench().take(TimerFired("watch")) == (SetTimer("watch", WATCH_S),)


def test_nothing_is_started_after_a_restart_was_denied() -> None:
    bench = Bench()
    bench.lose(0, kind="content")
    effects = bench.take(PartExited(W1, 0, "killed"))
    assert [type(each) for each in effects] == [Send]


def test_nothing_counts_after_the_end() -> None:
    bench = Bench()
    bench.take(stopped())
    assert bench.take(PartExited(W0, 0, "killed")) == ()
    assert bench.lose(0) == ()
    assert bench.take(stop_request()) == ()
    assert bench.take(TimerFired("watch")) == ()
    assert bench.core.state.dropped == 2


# ---- the end


def test_the_controllers_last_word_is_the_outcome_and_the_first_one_counts() -> None:
    bench = Bench()
    bench.take(status(agent_steps=7))
    assert bench.status.exit_reason == ""
    assert bench.take(stopped(reason="max_steps", cause="enough")) == (CancelTimer("stop"), Finish())
    assert bench.take(stopped(reason="other", code=4)) == ()
    found = bench.status
    assert (found.exit_reason, found.exit_code, found.cause, found.agent_steps) == ("max_steps", 0, "enough", 7)


@pytest.mark.parametrize(("reason", "code"), [("interrupted", 130), ("terminated", 143), ("closed", 0)])
def test_a_stop_has_a_deadline_and_its_own_exit_code(reason: str, code: int) -> None:
    bench = Bench()
    request = stop_request(reason, deadline_s=6.0)
    assert bench.take(request) == (Send(CONTROLLER, request), SetTimer("stop", 6.0))
    assert bench.take(StopRequest(run=RUN, reason="again", saves=False, deadline_s=1.0)) == ()
    assert Finish() in bench.take(TimerFired("stop"))
    assert (bench.status.exit_reason, bench.status.exit_code) == (reason, code)
    assert bench.status.cause == "the TrainerController did not end in time; the last save stands"
    assert bench.take(TimerFired("stop")) == ()


def test_a_deadline_without_a_stop_means_nothing() -> None:
    assert Bench().take(TimerFired("stop")) == ()


def test_a_status_is_told_to_whoever_asks() -> None:
    (effect,) = Bench().take(StatusRequest(run=RUN, request_id=4))
    assert isinstance(effect, Reply)
    assert effect.to == "somebody"
    assert isinstance(effect.message, Status)


def test_only_the_newest_lines_are_kept_and_their_numbers_go_on() -> None:
    state = Bench().core.state
    for number in range(LINES_MAX + 5):
        state = note(state, f"line {number}")
    lines = status_of(state).lines
    assert (lines[0], lines[-1]) == ((5, "[INFO] line 5"), (LINES_MAX + 4, f"[INFO] line {LINES_MAX + 4}"))


def test_parts_have_names_that_people_read() -> None:
    assert [name_of(each) for each in (CONTROLLER, HOLDER, W1)] == [
        "the TrainerController",
        "the PolicyHolder",
        "EnvWorker 1",
    ]


def test_messages_of_another_run_are_dropped_and_counted() -> None:
    bench = Bench()
    before = bench.core.state
    assert bench.take(replace(stopped(), run=OTHER_RUN)) == ()
    assert bench.core.state == replace(before, dropped=1)


def test_a_message_for_somebody_else_is_refused_and_changes_nothing() -> None:
    bench = Bench()
    before = bench.core.state
    with pytest.raises(ActorProtocolError, match="the Supervisor was sent EnvReset, which is not for it"):
        bench.take(env_reset())
    assert bench.core.state == before


def test_a_loss_that_no_environment_of_ours_had_is_dropped() -> None:
    bench = Bench()
    assert bench.take(player_lost(9, 0)) == ()
    assert not sent(bench.take(player_lost(0, 2)), PlayerLost)
    assert bench.core.state.dropped == 2
