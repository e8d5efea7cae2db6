"""The EnvWorker: players are opened, reset, lost, started again and closed, each on its own."""

from __future__ import annotations

import pytest

from runtime.decisions.effects import (
    CONTROLLER,
    SUPERVISOR,
    ClosePlayer,
    Finish,
    OpenPlayer,
    PlayerReplied,
    Report,
    ResetPlayer,
    Send,
    SendBlocks,
    SendReset,
    SetTimer,
    StepPlayer,
    TimerFired,
)
from runtime.decisions.env_worker import HEARTBEAT_S
from runtime.decisions.env_worker_state import Phase, Slot
from runtime.errors import ActorProtocolError
from runtime.experience.brains import EnvId, Incarnation
from runtime.messages import (
    BrainsFound,
    PlayerLost,
    PolicyUpdate,
    Stopped,
    StopRequest,
    WorkerAlive,
    WorkerReady,
)
from tests.support.bench_worker import WorkerBench as Bench
from tests.support.bench_worker import closed, connected, failed, replied
from tests.support.builders_messages import (
    OTHER_RUN,
    WALKER,
    assignment,
    brain,
    env_grant,
    of_type,
    policy,
    reset_request,
    sent,
    start_player,
    status,
    step_grant,
    stop_request,
)


def test_a_worker_opens_all_its_players_at_once_and_beats() -> None:
    bench = Bench(2)
    opened = [each.assignment for each in of_type(bench.begun, OpenPlayer)]
    assert opened == [assignment(0), assignment(1)]
    assert SetTimer("heartbeat", HEARTBEAT_S) in bench.begun
    beat = bench.take(TimerFired("heartbeat"))
    assert sent(beat, WorkerAlive, SUPERVISOR)
    assert SetTimer("heartbeat", HEARTBEAT_S) in beat


def test_a_player_that_connects_is_told_with_its_pids_and_brains() -> None:
    effects = Bench().take(connected(brains=("A", "B")))
    (ready,) = sent(effects, WorkerReady, SUPERVISOR)
    assert (ready.pid, ready.player_pid, ready.reset_parameters) == (11, 50, {"gravity": 9.8})
    (found,) = sent(effects, BrainsFound, CONTROLLER)
    assert [each.brain_name for each in found.brains] == ["A", "B"]


def test_a_player_without_brains_in_its_handshake_tells_none() -> None:
    assert not sent(Bench().take(connected()), BrainsFound)


def test_a_reset_is_carried_out_and_its_answer_sent() -> None:
    bench = Bench()
    bench.take(connected())
    (reset,) = of_type(bench.take(reset_request()), ResetPlayer)
    assert (reset.env_id, reset.incarnation, reset.reset_id) == (0, 0, 0)
    assert bench.take(replied()) == (SendReset(EnvId(0), Incarnation(0)),)
    assert bench.slot().phase is Phase.IDLE


def test_brains_that_appear_in_a_reply_are_told_before_its_rows() -> None:
    bench = Bench()
    bench.take(connected(), reset_request())
    effects = bench.take(PlayerReplied(EnvId(0), Incarnation(0), {"Late": 1}, (brain("Late"),)))
    assert [type(each) for each in effects] == [Send, SendReset]


def test_a_reset_takes_the_credit_back() -> None:
    bench = Bench().ready()
    bench.take(step_grant(env_grant(until=9)), reset_request(reset_id=1), replied())
    assert bench.slot().until_step == bench.slot().taken == 0


def test_a_reset_of_an_idle_player_sends_its_open_steps_first() -> None:
    bench = Bench().stepping(until=3)
    bench.take(replied(), replied())
    bench.core.handle(step_grant(versions={WALKER: 1}), 0.0)
    bench.take(replied())
    assert bench.slot().phase is Phase.IDLE
    assert bench.slot().open_steps == 0
    bench = Bench().stepping(until=3)
    bench.take(step_grant(versions={WALKER: 1}), replied())
    assert (bench.slot().phase, bench.slot().open_steps) == (Phase.IDLE, 1)
    effects = bench.take(reset_request(reset_id=1))
    assert [type(each) for each in effects] == [SendBlocks, ResetPlayer]


def test_a_reset_that_comes_during_a_step_waits_for_its_reply() -> None:
    bench = Bench().stepping()
    assert bench.take(reset_request(reset_id=3)) == ()
    effects = bench.take(replied())
    assert [type(each) for each in effects] == [SendBlocks, ResetPlayer]
    assert (bench.slot().phase, bench.slot().reset_id, bench.slot().taken) == (Phase.RESETTING, 3, 1)


def test_a_reset_that_comes_during_a_reset_waits_for_its_reply() -> None:
    bench = Bench()
    bench.take(connected(), reset_request(reset_id=0))
    assert bench.take(reset_request(reset_id=1)) == ()
    assert [type(each) for each in bench.take(replied())] == [SendReset, ResetPlayer]


@pytest.mark.parametrize("reset_id", [0, 1, 2])
def test_a_reset_that_is_not_newer_than_the_one_that_waits_is_dropped_and_counted(reset_id: int) -> None:
    bench = Bench().stepping()
    bench.take(reset_request(reset_id=2))
    assert bench.take(reset_request(reset_id=reset_id)) == ()
    assert bench.core.state.dropped == 1
    wanted = bench.slot().wanted
    assert wanted is not None
    assert wanted.reset_id == 2


def test_a_reset_of_a_lost_player_is_dropped_and_counted() -> None:
    bench = Bench().ready()
    bench.take(failed())
    assert bench.take(reset_request(reset_id=1)) == ()
    assert bench.core.state.dropped == 1


def test_a_loss_is_told_after_the_steps_before_it_and_once() -> None:
    bench = Bench().stepping()
    bench.take(replied())
    effects = bench.take(failed(unreported=2))
    assert [type(each) for each in effects] == [SendBlocks, Send, Send, ClosePlayer]
    (lost,) = sent(effects, PlayerLost, CONTROLLER)
    assert sent(effects, PlayerLost, SUPERVISOR) == [lost]
    assert (lost.phase, lost.kind, lost.unreported_steps) == ("step", "died", 2)
    assert bench.take(failed(unreported=2)) == ()
    assert bench.core.state.dropped == 1


def test_a_loss_lets_the_blocks_go_that_waited_for_the_lost_player() -> None:
    bench = Bench(2)
    bench.ready(0)
    bench.ready(1)
    bench.take(policy(), step_grant(env_grant(0, until=1), env_grant(1, until=9), gathers=True))
    assert SendBlocks((EnvId(0),)) not in bench.take(replied(0))
    assert SendBlocks((EnvId(0),)) in bench.take(failed(1))


def test_another_players_loss_delays_nobody() -> None:
    bench = Bench(2).stepping(0)
    bench.take(failed(1))
    assert of_type(bench.take(replied(0)), StepPlayer)


def test_facts_of_another_incarnation_or_environment_are_dropped_and_counted() -> None:
    bench = Bench().stepping()
    before = bench.slot()
    assert bench.take(replied(0, 1), failed(0, 1), connected(7), closed(0, 5)) == ()
    assert (bench.core.state.dropped, bench.slot()) == (4, before)


def test_messages_of_another_run_are_dropped_and_counted() -> None:
    bench = Bench()
    foreign = PolicyUpdate(run=OTHER_RUN, behavior=WALKER, version=1, kind="onnx", body=b"")
    assert bench.take(foreign) == ()
    assert (bench.core.state.dropped, bench.core.state.installed) == (1, {})


def test_a_message_for_somebody_else_is_refused() -> None:
    with pytest.raises(ActorProtocolError, match="an EnvWorker was sent Status, which is not for it"):
        Bench().take(status())


# ---- starting again


def test_a_lost_player_is_opened_again_as_it_is_ordered() -> None:
    bench = Bench().ready()
    bench.take(failed())
    assert bench.take(start_player(incarnation=1)) == (OpenPlayer(assignment(0, 1)),)
    assert bench.slot() == Slot(assignment=assignment(0, 1))


def test_a_player_that_still_runs_is_closed_before_its_successor_opens_and_its_steps_are_sent() -> None:
    bench = Bench().stepping()
    bench.take(replied())
    assert bench.take(start_player(incarnation=1)) == (
        SendBlocks((EnvId(0),)),
        ClosePlayer(EnvId(0), Incarnation(0)),
        OpenPlayer(assignment(0, 1)),
    )
    assert bench.take(failed(0, 0), closed(0, 0)) == ()


def test_a_player_without_open_steps_sends_none_when_it_is_replaced() -> None:
    effects = Bench().ready().take(start_player(incarnation=1))
    assert [type(each) for each in effects] == [ClosePlayer, OpenPlayer]


def test_an_environment_may_join_a_worker_later() -> None:
    bench = Bench()
    assert bench.take(start_player(env_id=4, incarnation=0)) == (OpenPlayer(assignment(4, 0)),)


@pytest.mark.parametrize("incarnation", [0, 1])
def test_an_order_for_an_incarnation_that_is_not_newer_is_dropped_and_counted(incarnation: int) -> None:
    bench = Bench()
    bench.take(start_player(incarnation=1))
    assert bench.take(start_player(incarnation=incarnation)) == ()
    assert bench.core.state.dropped == 1


# ---- the end


def finishes(effects: tuple[object, ...]) -> bool:
    """True when the worker says to both that it has stopped, and finishes."""
    told = [sent(effects, Stopped, to) for to in (CONTROLLER, SUPERVISOR)]
    assert all(len(each) == len(of_type(effects, Finish)) for each in told)
    return bool(of_type(effects, Finish))


def test_a_stop_closes_players_at_rest_and_finishes_when_they_are_closed() -> None:
    bench = Bench(2).ready(0)
    effects = bench.take(stop_request(deadline_s=4.0))
    assert [each.env_id for each in of_type(effects, ClosePlayer)] == [0, 1]
    assert SetTimer("stop", 2.0) in effects
    assert not finishes(bench.take(closed(0)))
    assert finishes(bench.take(closed(1)))


def test_a_step_under_way_is_let_finish_and_its_steps_are_sent() -> None:
    bench = Bench().stepping()
    assert not of_type(bench.take(stop_request()), ClosePlayer)
    effects = bench.take(replied())
    assert [type(each) for each in effects][:3:2] == [SendBlocks, ClosePlayer]
    assert bench.slot().taken == 1
    assert finishes(bench.take(closed()))


def test_a_reset_under_way_is_not_waited_for() -> None:
    bench = Bench()
    bench.take(connected(), reset_request())
    assert of_type(bench.take(stop_request()), ClosePlayer)
    assert bench.take(replied()) == ()
    assert bench.slot().phase is Phase.CLOSING


def test_a_step_that_does_not_end_in_time_is_given_up_and_told() -> None:
    bench = Bench(2).stepping(0)
    bench.take(replied(0))
    bench.take(stop_request())
    effects = bench.take(TimerFired("stop"))
    assert [type(each) for each in effects] == [Report, SendBlocks, ClosePlayer]
    lost = sent(bench.take(failed(0, unreported=3)), PlayerLost, CONTROLLER)
    assert [each.unreported_steps for each in lost] == [3]
    assert bench.take(failed(0, unreported=3)) == ()
    bench.take(closed(1))
    assert finishes(bench.take(closed(0)))


def test_a_step_given_up_without_open_steps_sends_none() -> None:
    bench = Bench().stepping()
    bench.take(stop_request())
    assert [type(each) for each in bench.take(TimerFired("stop"))] == [Report, ClosePlayer]


def test_a_player_lost_while_it_is_closed_is_told_only_if_it_may_have_counted() -> None:
    bench = Bench().ready()
    bench.take(stop_request())
    assert bench.take(failed()) == ()


def test_a_player_that_connects_while_it_is_closed_is_not_told() -> None:
    bench = Bench()
    bench.take(stop_request())
    assert bench.take(connected()) == ()


def test_a_player_lost_while_stopping_is_not_waited_for_again() -> None:
    bench = Bench().stepping()
    bench.take(stop_request())
    assert finishes(bench.take(failed()))
    assert bench.take(closed()) == ()


def test_a_worker_whose_players_are_lost_finishes_at_once_and_once() -> None:
    bench = Bench()
    bench.take(failed())
    assert finishes(bench.take(stop_request()))
    assert bench.take(closed()) == ()


def test_a_second_stop_is_dropped_and_counted() -> None:
    bench = Bench()
    bench.take(stop_request())
    assert bench.take(stop_request()) == ()
    assert bench.core.state.dropped == 1


def test_nothing_is_opened_after_a_stop() -> None:
    bench = Bench()
    bench.take(failed(), stop_request())
    assert bench.take(start_player()) == ()
    assert bench.core.state.dropped == 1


def test_grants_after_a_stop_start_nothing() -> None:
    bench = Bench(2).stepping(1)
    bench.ready(0)
    bench.take(stop_request())
    assert not of_type(bench.take(step_grant(env_grant(0, until=9))), StepPlayer)


def test_a_timer_that_nobody_knows_is_dropped_and_counted() -> None:
    bench = Bench()
    assert bench.take(TimerFired("lunch")) == ()
    assert bench.core.state.dropped == 1


def test_a_stop_request_keeps_its_own_reason() -> None:
    bench = Bench()
    request = stop_request("terminated", saves=False)
    bench.take(request)
    assert isinstance(bench.core.state.stop, StopRequest)
    assert bench.core.state.stop is request
