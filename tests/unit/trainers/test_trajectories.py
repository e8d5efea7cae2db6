"""How rows and actions of one agent become transitions, segments and episodes."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import InternalError
from runtime.experience.brains import BrainParameters, ObservationSpec
from runtime.experience.columns import RowKind
from tests.support.experience_streams import (
    Act,
    Feeder,
    Row,
    Step,
    feed,
    random_life,
    seeing_brain,
    small_brain,
    small_learner,
    small_settings,
)
from trainers.batches import Batch, batch_of
from trainers.behavior import Behavior
from trainers.buffer import End
from trainers.learner import PPOLearner

BRAIN = small_brain()
SEEING = seeing_brain()
COUNTING = small_brain(sights=[ObservationSpec((4, 3), (4, 1), 0, "stones")])
TERMINAL, INTERRUPTED = RowKind.TERMINAL, RowKind.INTERRUPTED


def started(*rows: Row, time_horizon: int = 64) -> tuple[Feeder, Behavior]:
    learner = small_learner(small_settings(time_horizon=time_horizon), brains=[BRAIN])
    assert isinstance(learner, PPOLearner)
    feeder = Feeder(learner, BRAIN)
    feeder.reset(*(rows or (Row(agent=1, x=0.0),)))
    return feeder, learner._behaviors["Walker"]


def act_and(*rows: Row, u: float = 0.0) -> Step:
    return Step((Act(agent=1, u=u),), rows)


def kept(behavior: Behavior) -> Mapping[str, npt.NDArray[np.float64]]:
    return {name: column.astype(np.float64) for name, column in behavior.buffer.columns().items()}


def batch(behavior: Behavior) -> Batch:
    """The batch that an update would learn from now, the open trajectories cut."""
    return batch_of(behavior.complete_buffer(), behavior.wires, behavior.settings.time_horizon)


def test_a_row_closes_the_transition_of_its_agent() -> None:
    feeder, behavior = started()
    feeder.steps(act_and(Row(agent=1, x=1.0, reward=0.5), u=7.0))
    columns = kept(behavior)
    assert columns["observations"].tolist() == [[0.0, 0.0, 0.0, 0.25, 0.25]]
    assert columns["continuous"].tolist() == [[7.0, 7.0]]
    assert columns["rewards"].tolist() == [0.5]
    assert columns["ends"].tolist() == [End.NONE]


def test_a_member_learns_from_what_its_group_earns_too() -> None:
    feeder, behavior = started()
    feeder.steps(act_and(Row(agent=1, x=1.0, reward=0.5, group_reward=2.0)))
    feeder.steps(Step((), (Row(agent=1, x=2.0, group_reward=4.0),)))
    feeder.steps(act_and(Row(agent=1, x=3.0, reward=1.0)))
    assert kept(behavior)["rewards"].tolist() == [2.5, 5.0]  # what came without an action is owed to the next


def test_an_action_whose_outcome_comes_in_a_later_block_is_paired_then() -> None:
    feeder, behavior = started()
    feeder.steps(Step((Act(agent=1, u=3.0),)))
    feeder.steps(Step(), Step())
    assert len(behavior.buffer) == 0
    feeder.steps(Step((), (Row(agent=1, x=1.0, reward=2.0),)))
    columns = kept(behavior)
    assert columns["continuous"][:, 0].tolist() == [3.0]
    assert columns["rewards"].tolist() == [2.0]


def test_a_terminal_row_ends_the_episode_without_bootstrap_and_the_next_row_begins_another() -> None:
    feeder, behavior = started()
    feeder.steps(
        act_and(Row(agent=1, x=1.0, reward=1.0, kind=TERMINAL), Row(agent=1, x=5.0, reward=9.0)),
        act_and(Row(agent=1, x=6.0, reward=2.0)),
    )
    found = batch(behavior)
    assert found.rewards[: found.count].tolist() == [1.0, 2.0]
    assert found.observations[: found.count, 0].tolist() == [0.0, 5.0]
    assert found.continues[: found.count].tolist() == [False, True]
    assert found.is_linked[: found.count].tolist() == [False, False]
    assert behavior.episodes.recent[0][1:] == (1.0, 1)


def test_a_time_limit_bootstraps_from_its_own_observation() -> None:
    feeder, behavior = started()
    feeder.steps(act_and(Row(agent=1, x=4.0, reward=1.0, kind=INTERRUPTED), Row(agent=1, x=5.0)))
    found = batch(behavior)
    assert found.continues[0]
    assert found.observations[found.next_rows[0], 0] == 4.0
    assert behavior.episodes.count == 1


def test_rows_without_an_action_since_the_last_one_replace_it_and_their_reward_is_owed() -> None:
    feeder, behavior = started()
    feeder.steps(
        act_and(Row(agent=1, x=1.0, reward=1.0)),
        Step((), (Row(agent=1, x=2.0, reward=0.25),)),
        Step((), (Row(agent=1, x=3.0, reward=0.5),)),
        act_and(Row(agent=1, x=4.0, reward=2.0)),
    )
    columns = kept(behavior)
    assert columns["observations"][:, 0].tolist() == [0.0, 3.0]
    assert columns["rewards"].tolist() == [1.0, 2.75]


@pytest.mark.parametrize("is_split", [False, True])
def test_an_episode_that_ends_without_an_action_ends_its_last_transition(*, is_split: bool) -> None:
    feeder, behavior = started()
    first, last = act_and(Row(agent=1, x=1.0, reward=1.0)), Step((), (Row(agent=1, x=2.0, reward=-1.0, kind=TERMINAL),))
    if is_split:
        feeder.steps(first)
        feeder.steps(last)
    else:
        feeder.steps(first, last)
    columns = kept(behavior)
    assert columns["rewards"].tolist() == [0.0]
    assert columns["ends"].tolist() == [End.TERMINAL]
    assert behavior.episodes.recent[0][1:] == (0.0, 1)


def test_an_agent_that_appears_in_mid_run_starts_a_trajectory() -> None:
    feeder, behavior = started()
    feeder.steps(Step((), (Row(agent=7, x=1.0),)), Step((Act(agent=7),), (Row(agent=7, x=2.0, reward=3.0),)))
    columns = kept(behavior)
    assert columns["agent"].tolist() == [7.0]
    assert columns["rewards"].tolist() == [3.0]


def test_an_agent_that_ends_before_it_decided_anything_is_no_episode() -> None:
    feeder, behavior = started()
    feeder.steps(Step((), (Row(agent=7, x=1.0, kind=TERMINAL, reward=5.0),)))
    feeder.steps(Step((), (Row(agent=1, x=1.0, kind=TERMINAL, reward=5.0),)))
    assert behavior.episodes.count == 0
    assert len(behavior.buffer) == 0


def test_the_horizon_cuts_segments_and_bootstraps_from_the_next_observation() -> None:
    feeder, behavior = started(time_horizon=2)
    feeder.steps(*(act_and(Row(agent=1, x=float(x), reward=1.0)) for x in (1, 2, 3)))
    found = batch(behavior)
    assert found.is_linked[: found.count].tolist() == [True, False, False]
    assert found.continues[: found.count].all()
    assert found.observations[found.next_rows[: found.count], 0].tolist() == [1.0, 2.0, 3.0]


def test_an_update_cuts_trajectories_but_neither_episodes_nor_actions_under_way() -> None:
    feeder, behavior = started()
    feeder.steps(act_and(Row(agent=1, x=1.0, reward=1.0)), Step((Act(agent=1, u=5.0),)))
    behavior.begin_update()
    taken = behavior.in_flight
    assert taken is not None
    assert taken.columns()["ends"].tolist() == [End.CUT]
    assert taken.tails()[0][:, 0].tolist() == [1.0]
    assert len(behavior.buffer) == 0
    feeder.steps(Step((), (Row(agent=1, x=2.0, reward=2.0, kind=TERMINAL),)))
    columns = kept(behavior)
    assert columns["continuous"][:, 0].tolist() == [5.0]
    assert columns["observations"][:, 0].tolist() == [1.0]
    assert behavior.episodes.recent[0][1:] == (3.0, 2)


def test_a_cut_bootstraps_and_leaves_the_episode_out_of_all_means() -> None:
    feeder, behavior = started()
    feeder.steps(act_and(Row(agent=1, x=1.0, reward=1.0)))
    feeder.learner.cut(None)
    feeder.steps(Step((), (Row(agent=1, x=2.0),)), act_and(Row(agent=1, x=3.0, reward=1.0, kind=TERMINAL)))
    assert behavior.episodes.count == 0
    columns = kept(behavior)
    assert columns["ends"].tolist() == [End.CUT, End.TERMINAL]
    assert behavior.buffer.tails()[0][:, 0].tolist() == [1.0]


def test_the_episode_after_a_cut_one_counts_again() -> None:
    feeder, behavior = started()
    feeder.learner.cut(None)
    begin = Step((), (Row(agent=1, x=2.0, kind=TERMINAL), Row(agent=1, x=0.0)))
    feeder.steps(begin, act_and(Row(agent=1, reward=4.0, kind=TERMINAL)))
    assert [each[1:] for each in behavior.episodes.recent] == [(4.0, 1)]


def test_an_action_that_was_under_way_when_its_trajectory_was_cut_is_not_learned_from() -> None:
    feeder, behavior = started()
    feeder.steps(Step((Act(agent=1),)))
    feeder.learner.cut(None)
    feeder.steps(Step((), (Row(agent=1, x=1.0, reward=1.0),)), act_and(Row(agent=1, x=2.0, reward=2.0)))
    assert kept(behavior)["rewards"].tolist() == [2.0]


def test_the_reply_to_a_reset_cuts_what_is_open_and_begins_counted_episodes() -> None:
    feeder, behavior = started()
    feeder.steps(act_and(Row(agent=1, x=1.0, reward=1.0)), Step((Act(agent=1),)))
    feeder.reset(Row(agent=1, x=9.0))
    feeder.steps(act_and(Row(agent=1, x=8.0, reward=3.0, kind=TERMINAL)))
    columns = kept(behavior)
    assert columns["observations"][:, 0].tolist() == [0.0, 9.0]
    assert columns["ends"].tolist() == [End.CUT, End.TERMINAL]
    assert [each[1:] for each in behavior.episodes.recent] == [(3.0, 1)]


def test_a_new_incarnation_never_continues_an_old_trajectory() -> None:
    feeder, behavior = started()
    feeder.steps(act_and(Row(agent=1, x=1.0, reward=1.0)), Step((Act(agent=1),)))
    feeder.incarnation, feeder.step = 1, 0
    feeder.steps(Step((), (Row(agent=1, x=5.0, reward=100.0),)), act_and(Row(agent=1, x=6.0, reward=2.0)))
    columns = kept(behavior)
    assert columns["rewards"].tolist() == [1.0, 2.0]
    assert columns["incarnation"].tolist() == [0.0, 1.0]
    assert columns["ends"].tolist() == [End.CUT, End.NONE]


@pytest.mark.parametrize("is_stale", [False, True])
def test_blocks_out_of_order_are_a_bug(*, is_stale: bool) -> None:
    feeder, _ = started()
    feeder.incarnation = 1
    feeder.steps(Step(), Step())
    feeder.step = 1
    if is_stale:
        feeder.incarnation, feeder.step = 0, 9
    with pytest.raises(InternalError, match="expected blocks in order"):
        feeder.steps(Step())


def test_agents_that_are_silent_too_long_are_cut() -> None:
    feeder, behavior = started(Row(agent=1), Row(agent=2))
    feeder.steps(*(act_and(Row(agent=1, x=float(x))) for x in range(5)))
    assert feeder.learner.cut_idle(feeder.env_id, 5) == 0  # type: ignore[arg-type]  # a plain number will do
    assert feeder.learner.cut_idle(feeder.env_id, 4) == 1  # type: ignore[arg-type]  # a plain number will do
    assert len(behavior.streams["Walker", 0]) == 1  # type: ignore[index]  # a plain number will do


def test_a_segment_is_of_one_policy_version() -> None:
    feeder, behavior = started()
    feeder.steps(act_and(Row(agent=1, x=1.0)))
    feeder.version = 1
    feeder.steps(act_and(Row(agent=1, x=2.0)), act_and(Row(agent=1, x=3.0)))
    found = batch(behavior)
    assert found.versions[: found.count].tolist() == [0, 1, 1]
    assert found.is_linked[: found.count].tolist() == [False, True, False]


def everything(learner: PPOLearner) -> tuple[object, ...]:
    """All that learning would see: the batch, progress, episodes."""
    behavior = learner._behaviors["Walker"]
    found = batch(behavior)
    apart = {"count", "sights", "sequences"}
    arrays = tuple(getattr(found, name).tobytes() for name in Batch.__slots__ if name not in apart)
    sights = tuple(each.tobytes() for each in found.sights.fetch(np.arange(len(found))))
    return (
        arrays,
        sights,
        behavior.progress(is_training=True),
        sorted(behavior.episodes.recent),
        sorted(behavior.episodes.fresh),
    )


lives = st.tuples(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 30))


@given(
    brain=st.sampled_from([BRAIN, SEEING, COUNTING]),
    life=lives,
    cuts=st.sets(st.integers(1, 29)),
    update_at=st.integers(0, 30),
)
def test_cutting_a_run_into_blocks_anywhere_changes_nothing(
    brain: BrainParameters,
    life: tuple[int, int, int],
    cuts: set[int],
    update_at: int,
) -> None:
    seed, agents, steps = life
    first, rest = random_life(brain, seed=seed, agents=agents, steps=steps)
    results = []
    for places in ((), cuts):
        learner = small_learner(brains=[brain])
        assert isinstance(learner, PPOLearner)
        feeder = Feeder(learner, brain)
        feeder.reset(*first.rows)
        feed(feeder, rest[:update_at], places)
        learner._behaviors["Walker"].begin_update()
        feed(feeder, rest[update_at:], {each - update_at for each in places})
        results.append(everything(learner))
    assert results[0] == results[1]


@given(lives=st.lists(lives, min_size=2, max_size=3), order=st.randoms(use_true_random=False))
def test_the_batch_does_not_depend_on_which_environment_came_first(
    lives: list[tuple[int, int, int]],
    order: object,
) -> None:
    results = []
    for is_shuffled in (False, True):
        learner = small_learner(brains=[BRAIN])
        assert isinstance(learner, PPOLearner)
        turns = []
        for env_id, (seed, agents, steps) in enumerate(lives):
            first, rest = random_life(BRAIN, seed=seed, agents=agents, steps=steps)
            feeder = Feeder(learner, BRAIN, env_id=env_id)
            feeder.reset(*first.rows)
            turns += [(feeder, iter(rest))] * steps
        if is_shuffled:
            order.shuffle(turns)  # type: ignore[attr-defined]  # Hypothesis' random.Random
        for feeder, rest_of in turns:
            feeder.steps(next(rest_of))
        results.append(everything(learner))
    assert results[0] == results[1]


@given(life=lives)
def test_every_transition_pairs_an_observation_with_the_next_of_the_same_agent(life: tuple[int, int, int]) -> None:
    seed, agents, steps = life
    first, rest = random_life(BRAIN, seed=seed, agents=agents, steps=steps)
    learner = small_learner(brains=[BRAIN])
    assert isinstance(learner, PPOLearner)
    feeder = Feeder(learner, BRAIN)
    feeder.reset(*first.rows)
    feed(feeder, rest, range(0, 30, 7))
    expected = _transitions_by_hand([first, *rest])
    columns = kept(learner._behaviors["Walker"])
    found = sorted(
        zip(
            columns["agent"].tolist(),
            columns["observations"][:, 0].tolist(),
            columns["continuous"][:, 0].tolist(),
            columns["rewards"].tolist(),
            strict=True,
        )
    )
    assert found == sorted(expected)
    assert learner.progress()["Walker"].steps == len(expected)


def _transitions_by_hand(steps: list[Step]) -> list[tuple[float, float, float, float]]:
    """The obvious way: one look at each event, everything in one dictionary."""
    latest: dict[int, Row] = {}
    acted: dict[int, Act] = {}
    found = []
    for step in steps:
        acted.update({act.agent: act for act in step.acts})
        for row in step.rows:
            act = acted.pop(row.agent, None)
            if act is not None:
                found.append((float(row.agent), latest[row.agent].x, act.u, row.reward))
            latest[row.agent] = row
    return found
