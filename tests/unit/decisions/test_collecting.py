"""Rounds and windows: what is granted, in which order blocks are accepted, and when updates run."""

from __future__ import annotations

from runtime.decisions.controller_state import ControllerPhase
from runtime.decisions.effects import AcceptBlocks, BlocksAccepted, CutTrajectories, StartUpdate, UpdateFinished
from runtime.experience.brains import EnvId
from runtime.messages import StepGrant
from tests.support.bench_controller import ControllerBench as Bench
from tests.support.bench_controller import accepted_in, freely, grants_in, in_round, three_versions_ahead
from tests.support.builders_messages import (
    WALKER,
    block,
    brains_found,
    env_reset,
    of_type,
    player_lost,
    progress,
    release,
    sent,
    steps_taken,
    worker_ready,
)

# ---- synchronous rounds


def test_blocks_of_a_round_are_accepted_together_in_the_order_of_environments() -> None:
    bench = in_round(3)
    bench.take(steps_taken(block(2, steps=4)))
    bench.take(steps_taken(block(0, steps=1)))
    bench.take(steps_taken(block(0, first=1, steps=3)))
    assert bench.state.counters.env_steps == 0
    effects = bench.take(steps_taken(block(1, steps=4)))
    assert accepted_in(effects) == [(0, 0), (0, 1), (1, 0), (2, 0)]
    assert bench.state.counters.env_steps == 12


def test_a_round_grants_everybody_the_same_and_gathers_blocks() -> None:
    bench = in_round()
    bench.progress = progress(buffered=94, buffer_size=100)
    (grant,) = sent(bench.take(steps_taken(block(0, steps=4), block(1, steps=4))), StepGrant)
    assert {each.env_id: each.until_step for each in grant.grants} == {0: 7, 1: 7}
    assert (grant.block_steps, grant.gathers, grant.versions) == (3, True, {WALKER: 0})


def test_a_round_that_fills_the_buffer_is_followed_by_an_update_before_the_next() -> None:
    bench = in_round()
    bench.progress = progress(buffered=100, is_ready=True)
    effects = bench.take(steps_taken(block(0, steps=4), block(1, steps=4)))
    assert of_type(effects, StartUpdate) == [StartUpdate(WALKER)]
    assert bench.state.phase is ControllerPhase.SETTLING
    assert not grants_in(effects)
    effects = bench.finish_update(1)
    assert grants_in(effects) == {(0, 0): 8, (1, 0): 8}
    assert all(each.versions == {WALKER: 1} for each in sent(effects, StepGrant))


def test_updates_of_all_behaviors_that_are_due_begin_in_the_order_of_names_and_are_all_awaited() -> None:
    bench = in_round(1)
    bench.take(brains_found("B", "A"))
    unknown = progress("C", is_ready=True)
    bench.progress = progress() | progress("B", is_ready=True) | progress("A", is_ready=True) | unknown
    effects = bench.take(steps_taken(block(0, steps=4)))
    assert [each.behavior for each in of_type(effects, StartUpdate)] == ["A", "B"]
    bench.progress = progress() | progress("A", version=1) | progress("B")
    assert not grants_in(bench.take(UpdateFinished(release(1, "A"), bench.progress)))
    assert grants_in(bench.take(UpdateFinished(release(1, "B"), bench.progress)))


def test_without_training_no_update_runs() -> None:
    bench = Bench(is_training=False)
    bench.reset()
    bench.progress = progress(is_ready=True)
    effects = bench.take(steps_taken(block(0, steps=4)))
    assert not of_type(effects, StartUpdate)
    assert grants_in(effects) == {(0, 0): 8}


def test_a_player_that_comes_back_while_an_update_runs_waits_for_the_next_round() -> None:
    bench = in_round()
    bench.take(player_lost(1))
    bench.progress = progress(is_ready=True)
    bench.take(steps_taken(block(0, steps=4)))
    assert not grants_in(bench.reset(1, 1))
    assert grants_in(bench.finish_update(1)) == {(0, 0): 8, (1, 1): 4}


def test_a_round_of_nobody_ends_and_the_next_waits_for_whoever_comes_back() -> None:
    bench = in_round(1)
    bench.take(player_lost(0))
    assert bench.state.phase is ControllerPhase.GATHERING
    assert grants_in(bench.reset(0, 1)) == {(0, 1): 4}


def test_nothing_goes_on_while_the_learner_has_not_taken_the_blocks() -> None:
    bench = in_round(1)
    effects = bench.core.handle(steps_taken(block(0, steps=4)), 0.0)
    assert len(of_type(effects, AcceptBlocks)) == 1
    assert not grants_in(effects)
    assert bench.core.handle(steps_taken(), 0.0) == ()
    assert grants_in(bench.core.handle(BlocksAccepted(progress()), 0.0)) == {(0, 0): 8}


def test_a_round_ends_at_the_next_stop() -> None:
    bench = Bench(stop_at=3)
    assert grants_in(bench.reset()) == {(0, 0): 3}


def test_a_round_ends_where_players_are_to_be_restarted_and_later_at_the_stop() -> None:
    bench = Bench(stop_at=9, restart_envs_at=2)
    assert grants_in(bench.reset()) == {(0, 0): 2}
    bench.take(steps_taken(block(0, steps=2, agent_steps=2)))
    assert grants_in(bench.reset(0, 1, agents=2)) == {(0, 1): 4}


def test_the_version_that_acted_and_the_time_of_the_last_agent_are_known() -> None:
    bench = in_round(1)
    bench.take(steps_taken(block(0, steps=4, version=3, pending={WALKER: 0, "stranger": 1})))
    record = bench.state.behaviors[WALKER]
    assert (record.acted_version, record.agents_seen_at) == (3, 0)
    bench.take(steps_taken(block(0, first=4, steps=4, version=2, pending={WALKER: 1})))
    record = bench.state.behaviors[WALKER]
    assert (record.acted_version, record.agents_seen_at) == (3, 8)


# ---- what cannot be accepted


def test_a_block_that_comes_twice_counts_once() -> None:
    bench = in_round()
    twice = steps_taken(block(0, steps=2, agent_steps=2))
    bench.take(twice, twice, steps_taken(block(0, first=2, steps=2)), steps_taken(block(1, steps=4)), twice)
    counters = bench.state.counters
    assert (counters.env_steps, counters.lost, counters.dropped) == (8, {}, {"StepsTaken": 2})


def test_a_block_of_no_environment_of_ours_is_dropped_and_counted() -> None:
    bench = in_round()
    assert bench.take(steps_taken(block(9))) == ()
    assert bench.state.counters.dropped == {"StepsTaken": 1}


def test_a_block_that_came_before_a_restart_is_not_declared_lost_after_it() -> None:
    bench = in_round()
    old = steps_taken(block(0, steps=2, agent_steps=2))
    bench.take(old, player_lost(0))
    bench.reset(0, 1)
    bench.take(old)
    assert (bench.state.counters.lost, bench.state.counters.agent_steps) == ({}, 2)


def test_a_hole_in_the_blocks_is_stepped_over_and_no_trajectory_goes_on_across_it() -> None:
    bench = in_round()
    bench.take(steps_taken(block(0, steps=1)))
    effects = bench.take(steps_taken(block(0, first=3, steps=1, agent_steps=5)))
    assert [type(each) for each in effects] == [AcceptBlocks, CutTrajectories]
    counters = bench.state.counters
    assert (counters.lost, counters.unreported_max, bench.env().received) == ({"gap": 5}, 2, 4)
    assert grants_in(bench.take(steps_taken(block(1, steps=4)))) == {(0, 0): 8, (1, 0): 8}


# ---- asynchronous windows


def test_blocks_are_accepted_as_they_come_and_windows_move_on() -> None:
    bench = freely()
    assert bench.env(0).until == 4
    effects = bench.take(steps_taken(block(1, steps=2)))
    assert accepted_in(effects) == [(1, 0)]
    assert grants_in(effects) == {(1, 0): 6}
    (grant,) = sent(effects, StepGrant)
    assert (grant.block_steps, grant.gathers) == (2, False)


def test_a_window_that_is_still_wide_is_left_alone() -> None:
    bench = freely()
    assert not grants_in(bench.take(steps_taken(block(0, steps=1))))


def test_collecting_goes_on_while_an_update_runs() -> None:
    bench = freely()
    bench.progress = progress(is_ready=True)
    effects = bench.take(steps_taken(block(0, steps=2)))
    assert of_type(effects, StartUpdate) == [StartUpdate(WALKER)]
    bench.progress = progress()
    assert grants_in(bench.take(steps_taken(block(1, steps=2)))) == {(0, 0): 6, (1, 0): 6}


def test_collecting_pauses_while_an_update_runs_and_the_next_buffer_is_full() -> None:
    bench = freely()
    bench.progress = progress(is_ready=True)
    bench.take(steps_taken(block(0, steps=2)))
    effects = bench.take(steps_taken(block(1, steps=2)))
    assert not of_type(effects, StartUpdate)
    assert not grants_in(effects)


def test_a_full_buffer_pauses_nobody_where_nothing_is_learned() -> None:
    bench = Bench(is_sync=False, is_training=False, block_steps_max=2)
    bench.reset()
    bench.progress = progress(is_ready=True)
    assert grants_in(bench.take(steps_taken(block(0, steps=2)))) == {(0, 0): 6}


def test_a_new_version_is_granted_at_once_to_those_who_step() -> None:
    bench = freely()
    bench.progress = progress(is_ready=True)
    bench.take(steps_taken(block(0, steps=2)))
    grants = sent(bench.finish_update(1), StepGrant)
    assert grants[0].versions == {WALKER: 1}
    assert {each.env_id for each in grants[0].grants} == {0, 1}


def test_steps_three_versions_old_are_lost_and_their_trajectories_cut() -> None:
    bench = three_versions_ahead()
    effects = bench.take(steps_taken(block(1, steps=1, agent_steps=3, version=0)))
    assert CutTrajectories(EnvId(1)) in effects
    assert not accepted_in(effects)
    assert bench.state.counters.lost == {"stale": 3}
    assert accepted_in(bench.take(steps_taken(block(1, first=1, steps=1, version=1)))) == [(1, 1)]


def test_a_lost_player_is_cut_at_once() -> None:
    bench = freely()
    assert CutTrajectories(EnvId(0)) in bench.take(player_lost(0))
    assert bench.state.cuts == frozenset()


def test_a_player_that_comes_back_joins_at_once() -> None:
    bench = freely()
    bench.take(player_lost(0))
    assert grants_in(bench.reset(0, 1)) == {(0, 1): 4}


def test_nobody_is_granted_anything_while_all_are_lost() -> None:
    bench = freely(1)
    assert not grants_in(bench.take(player_lost(0)))


def test_a_behavior_without_a_policy_holds_back_those_who_are_ready() -> None:
    bench = freely()
    bench.take(player_lost(0), worker_ready(0, 1))
    assert not grants_in(bench.take(env_reset(0, incarnation=1, pending={"Late": 1})))
    assert grants_in(bench.take(brains_found("Late"), steps_taken(block(1, steps=2)))) == {(0, 1): 4, (1, 0): 6}


def test_nobody_steps_beyond_an_end_that_waits_for_an_update() -> None:
    bench = freely()
    bench.progress = progress(is_ready=True)
    bench.take(steps_taken(block(0, steps=2)))
    bench.progress = progress(steps=1000, max_steps=1000)
    effects = bench.take(steps_taken(block(1, steps=2)))
    assert not grants_in(effects)
    assert bench.state.ending is None
    bench.finish_update(1, steps=1000, max_steps=1000)
    assert bench.state.ending is not None
