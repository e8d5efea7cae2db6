"""The rules of the scenes for images, memory, curricula, groups and teams, played by hand."""

import importlib
from pathlib import Path

import numpy as np
import pytest

from fakeunity.rows import Actions, Rows, World
from fakeunity.scenes.catalogue import SCENES, open_world
from fakeunity.scenes.gridworld import GridWorld
from fakeunity.scenes.soccer import Soccer
from fakeunity.scenes.teacher import KEY_OF_SIGN
from fakeunity.scenes.walljump import WallJump
from runtime.players.wire import communicator_gen1_pb2 as old
from runtime.players.wire import communicator_pb2 as pb
from tests.support.driving import Choice, observations, random_choice
from tests.support.gen1_driving import Choice as OldChoice
from tests.support.gen1_driving import Gen1Driver
from tests.support.scripted import actions, best
from tests.unit.fakeunity.opening import opened, started

NOTHING = np.zeros((1, 0), np.float32)


def act(world: World, name: str, *branches: int) -> Rows:
    """The rows after one agent did this."""
    return world.step({name: Actions(NOTHING, np.array([branches], np.int64))})[name]


def one(scene: str, seed: int = 0) -> World:
    world = open_world(scene, agents=1, handshake_seed=seed, url_seed=0)
    world.reset()
    return world


# ------------------------------------------------------------------ gridworld


def grid(cell: int, plus: int, cross: int, wanted: int) -> GridWorld:
    world = one("gridworld")
    assert isinstance(world, GridWorld)
    for array, value in ((world.cell, cell), (world.plus, plus), (world.cross, cross), (world.wanted, wanted)):
        array[:] = value
    return world


@pytest.mark.parametrize(
    ("action", "cell"), [(0, 12), (1, 7), (2, 17), (3, 11), (4, 13)], ids=["stay", "up", "down", "left", "right"]
)
def test_gridworld_moves_as_written(action: int, cell: int) -> None:
    world = grid(12, 0, 24, 0)
    rows = act(world, "GridWorld", action)
    assert world.cell[0] == cell
    assert rows.rewards.tolist() == [0.0]


@pytest.mark.parametrize(("cell", "action"), [(0, 1), (0, 3), (24, 2), (24, 4)])
def test_gridworld_moves_stop_at_the_border(cell: int, action: int) -> None:
    world = grid(cell, 12, 13, 0)
    act(world, "GridWorld", action)
    assert world.cell[0] == cell


@pytest.mark.parametrize(("wanted", "action", "reward"), [(0, 4, 1.0), (0, 3, -1.0), (1, 4, -1.0), (1, 3, 1.0)])
def test_gridworld_pays_for_the_wanted_one_and_takes_for_the_other(wanted: int, action: int, reward: float) -> None:
    rows = act(grid(12, 13, 11, wanted), "GridWorld", action)
    assert rows.rewards[0] == reward
    assert (rows.done[0], rows.interrupted[0]) == (True, False)


def test_gridworld_draws_three_different_cells_all_of_them_equally_often() -> None:
    world = open_world("gridworld", agents=20000, handshake_seed=1, url_seed=0)
    assert isinstance(world, GridWorld)
    world.reset()
    cells = np.stack((world.cell, world.plus, world.cross))
    assert (np.sort(cells, axis=0)[1:] != np.sort(cells, axis=0)[:-1]).all()
    for row in cells:
        assert np.abs(np.bincount(row, minlength=25) - 800).max() < 150
    assert abs(world.wanted.mean() - 0.5) < 0.02


# ------------------------------------------------------------------ hallway


def test_hallway_shows_the_sign_at_the_entrance_only() -> None:
    driver = started("hallway?agents=20", lambda _p, _i: actions(discrete=[1]))
    for cell in range(6):
        for info in driver.waiting["Hallway"]:
            seen = list(observations(info)[0])
            assert seen[:6].index(1.0) == cell
            assert sum(seen[6:]) == (1.0 if cell == 0 else 0.0)
        driver.step()


def test_hallway_gives_a_policy_without_memory_half_at_most() -> None:
    """At the end all agents see the same, so a policy without memory turns left with one probability everywhere."""
    world = open_world("hallway", agents=20000, handshake_seed=3, url_seed=0)
    rows = world.reset()["Hallway"]
    for _ in range(5):
        go = Actions(np.zeros((20000, 0), np.float32), np.ones((20000, 1), np.int64))
        rows = world.step({"Hallway": go})["Hallway"]
    assert len(np.unique(rows.observations[0], axis=0)) == 1
    left = world.step({"Hallway": Actions(go.continuous, np.full((20000, 1), 2, np.int64))})["Hallway"]
    assert left.done[:20000].all()
    assert left.rewards[:20000].mean() == pytest.approx(0.5, abs=0.02)


def test_hallway_has_no_way_back_and_turns_nowhere_but_at_the_end() -> None:
    driver = started("hallway?agents=1", lambda _p, _i: actions(discrete=[2]))
    driver.steps(40)
    assert driver.endings["Hallway"] == [True]
    assert driver.returns["Hallway"] == [0.0]


# ------------------------------------------------------------------ walljump


def at_wall(height: float, speed: int) -> WallJump:
    world = one("walljump")
    assert isinstance(world, WallJump)
    world.cell[:], world.lane[:], world.facing[:] = 7, 1, 1
    world.speed[:], world.height[:] = speed, height
    return world


@pytest.mark.parametrize(
    ("height", "speed", "jump", "passes"),
    [
        (0, 0, 0, True),
        (1, 1, 1, True),
        (1, 0, 1, False),
        (1, 4, 0, False),
        (2.5, 2, 1, False),
        (2.5, 3, 1, True),
        (4, 4, 1, True),
    ],
)
def test_walljump_asks_for_a_jump_with_enough_speed(height: float, speed: int, jump: int, *, passes: bool) -> None:
    world = at_wall(height, speed)
    act(world, "WallJump", 1, 0, 0, jump)
    assert world.cell[0] == (8 if passes else 7)
    assert world.speed[0] == (min(speed + 1, 4) if passes else 0)


def test_walljump_runs_only_ahead_and_loses_its_speed_by_anything_else() -> None:
    world = at_wall(4.0, 0)
    world.cell[:], world.facing[:] = 3, 0
    act(world, "WallJump", 1, 0, 0, 0)
    assert (world.cell[0], world.speed[0]) == (3, 0)
    act(world, "WallJump", 1, 2, 0, 0)
    assert (world.cell[0], world.speed[0]) == (4, 1)
    act(world, "WallJump", 2, 0, 0, 0)
    assert (world.cell[0], world.speed[0]) == (3, 0)


def test_walljump_has_its_goal_in_the_middle_lane_and_no_way_back_over_the_wall() -> None:
    world = at_wall(0.0, 0)
    world.cell[:], world.lane[:] = 11, 0
    assert not act(world, "WallJump", 0, 0, 0, 0).done.any()
    assert act(world, "WallJump", 0, 0, 2, 0).rewards[0] == 1.0
    world = at_wall(0.0, 0)
    world.cell[:] = 8
    act(world, "WallJump", 2, 0, 0, 0)
    assert world.cell[0] == 8


@pytest.mark.parametrize("height", [0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 99.0])
def test_walljump_can_be_solved_at_every_height(height: float) -> None:
    driver = Gen1Driver(opened("walljump?protocol=API-9&agents=30"), as_modern(best("walljump")))
    driver.start({"wall_height": height})
    shown = {info.stacked_vector_observation[19] for info in driver.infos("WallJump")}
    assert shown == {np.float32(min(height, 4.0) / 4)}
    driver.steps(60)
    assert len(driver.returns["WallJump"]) >= 30
    assert set(driver.returns["WallJump"]) == {1.0}


def test_walljump_is_harder_for_chance_the_higher_the_wall() -> None:
    def earned(height: float) -> float:
        world = open_world("walljump", agents=300, handshake_seed=0, url_seed=0)
        world.parameters.hear("wall_height", height)
        rng, total = np.random.default_rng(0), 0.0
        world.reset()
        for _ in range(120):
            chosen = rng.integers(0, [3, 3, 3, 2], (300, 4))
            total += float(
                world.step({"WallJump": Actions(np.zeros((300, 0), np.float32), chosen)})["WallJump"].rewards.sum()
            )
        return total

    by_height = [earned(height) for height in (0.0, 1.0, 2.0, 4.0)]
    assert by_height == sorted(by_height, reverse=True)
    assert by_height[0] > 2 * by_height[1] > 4 * by_height[2]


# ------------------------------------------------------------------ pushblock_group


def test_pushblock_moves_for_two_and_not_for_one() -> None:
    world = open_world("pushblock_group", agents=3, handshake_seed=0, url_seed=0)
    world.reset()

    def step(*moves: int) -> Rows:
        chosen = Actions(np.zeros((3, 0), np.float32), np.array([[move] for move in moves], np.int64))
        return world.step({"PushBlockGroup": chosen})["PushBlockGroup"]

    def block(rows: Rows) -> int:
        return int(rows.observations[0][-1, 8:16].argmax())

    for _ in range(5):
        rows = step(2, 0, 0)
    assert block(rows) == 4
    for _ in range(3):
        rows = step(0, 2, 0)
    assert block(rows) == 4
    for _ in range(2):
        assert not step(2, 2, 0).done.any()
    rows = step(2, 2, 0)
    assert rows.done.tolist() == [True] * 3 + [False] * 3
    assert rows.group_rewards is not None
    assert rows.group_rewards.tolist() == [1.0] * 3 + [0.0] * 3
    assert not rows.rewards.any()


def test_pushblock_groups_are_of_three_and_end_together() -> None:
    driver = started("pushblock_group?agents=7", random_choice(1))
    assert [info.group_id for info in driver.waiting["PushBlockGroup"]] == [1, 1, 1, 2, 2, 2, 3]
    driver.steps(200)
    lengths = driver.lengths["PushBlockGroup"]
    assert len(lengths) > 7


# ------------------------------------------------------------------ soccer


def match() -> Soccer:
    world = one("soccer")
    assert isinstance(world, Soccer)
    return world


def kick(world: Soccer, first: int, second: int) -> dict[str, Rows]:
    chosen = {"Soccer?team=0": first, "Soccer?team=1": second}
    return dict(world.step({name: Actions(NOTHING, np.array([[move]], np.int64)) for name, move in chosen.items()}))


def place(world: Soccer, ball: int, *cells: tuple[int, int]) -> None:
    world.ball[:] = ball
    for team, (row, column) in enumerate(cells):
        world.row[team], world.column[team] = row, column


def test_soccer_is_won_by_going_forward_from_the_last_column_in_a_middle_row() -> None:
    for team in range(2):
        world = match()
        place(world, team, *((1, 5), (2, 1)) if team == 0 else ((2, 1), (1, 5)))
        rows = kick(world, *(4, 0) if team == 0 else (0, 4))
        assert [rows[f"Soccer?team={n}"].rewards[0] for n in range(2)] == ([1.0, -1.0] if team == 0 else [-1.0, 1.0])
        assert all(sent.done[0] and not sent.interrupted[0] for sent in rows.values())


def test_soccer_is_not_won_from_an_outer_row_or_without_the_ball() -> None:
    for ball, row in ((0, 0), (0, 3), (1, 1)):
        world = match()
        place(world, ball, (row, 5), (2, 1))
        assert not any(sent.done.any() for sent in kick(world, 4, 0).values())


def test_soccer_ball_changes_hands_when_one_runs_into_the_other() -> None:
    # Team 1 sees its columns from its own side: its column 3 is column 2 of team 0.
    for ball, expected in ((0, 1), (1, 0)):
        world = match()
        place(world, ball, (1, 1), (1, 3))
        kick(world, 4, 0)
        assert world.ball[0] == expected
        assert (world.column[0, 0], world.column[1, 0]) == (1, 3)


def test_soccer_rewards_of_a_match_add_up_to_nothing_and_both_sides_end_together() -> None:
    driver = started("soccer?agents=6", random_choice(5))
    driver.steps(500)
    first, second = driver.returns["Soccer?team=0"], driver.returns["Soccer?team=1"]
    assert [a + b for a, b in zip(first, second, strict=True)] == [0.0] * len(first)
    assert {1.0, -1.0} <= set(first)
    assert driver.endings["Soccer?team=0"] == driver.endings["Soccer?team=1"]


def test_soccer_favours_neither_team() -> None:
    """Whatever one player sees, the mirrored match shows the other."""
    driver = started("soccer?agents=100", random_choice(6))
    driver.steps(600)
    returns = driver.returns["Soccer?team=0"]
    assert abs(sum(returns)) < 4 * len(returns) ** 0.5


def test_soccer_of_two_who_stand_still_is_a_draw_by_the_time_limit() -> None:
    driver = started("soccer?agents=2", lambda _p, _i: actions(discrete=[0]))
    driver.steps(60)
    assert driver.returns["Soccer?team=0"] == [0.0, 0.0]
    assert driver.endings["Soccer?team=1"] == [True, True]


# ------------------------------------------------------------------ buffer and teacher


def test_buffer_shows_one_to_eight_stones_and_zeros_behind_them() -> None:
    world = open_world("buffer", agents=2000, handshake_seed=1, url_seed=0)
    stones = world.reset()["Buffer"].observations[0].reshape(2000, 8, 2)
    there = stones[:, :, 1] > 0
    counts = there.sum(axis=1)
    assert set(counts.tolist()) == set(range(1, 9))
    assert (there == (np.arange(8) < counts[:, None])).all()
    assert not stones[~there].any()
    assert np.abs(stones).max() <= 1.0


def test_teacher_pays_for_the_key_of_the_sign() -> None:
    assert sorted(KEY_OF_SIGN.tolist()) == [0, 1, 2, 3]
    driver = started("teacher?agents=3", random_choice(2))
    driver.steps(100)
    assert driver.returns["Teacher"] == pytest.approx([1.0] * 30)
    assert np.mean(driver.returns["Student"]) == pytest.approx(0.25, abs=0.15)


# ------------------------------------------------------------------ all


@pytest.mark.parametrize("scene", SCENES)
def test_a_scene_is_one_small_file(scene: str) -> None:
    module = importlib.import_module(f"fakeunity.scenes.{SCENES[scene].world.partition(':')[0]}")
    assert len(Path(module.__file__ or "").read_text(encoding="utf-8").splitlines()) < 200


SENSORS = {"CrowdLate": (1, 2)}


def as_modern(play: Choice) -> OldChoice:
    """Play written for the new generation, given what the old one shows."""

    def choose(brain: old.BrainParametersProto, info: old.AgentInfoProto) -> old.AgentActionProto:
        seen = pb.AgentInfoProto(id=info.id, action_mask=info.action_mask)
        seen.observations.extend(pb.ObservationProto(compressed_data=picture) for picture in info.visual_observations)
        vector = list(info.stacked_vector_observation)
        for size in SENSORS.get(brain.brain_name, (len(vector),)):
            seen.observations.add().float_data.data.extend(vector[:size])
            vector = vector[size:]
        described = pb.BrainParametersProto(brain_name=brain.brain_name)
        if brain.vector_action_space_type == old.discrete:
            described.action_spec.discrete_branch_sizes.extend(brain.vector_action_size)
        action = play(described, seen)
        return old.AgentActionProto(vector_actions=[*action.continuous_actions, *action.discrete_actions])

    return choose


@pytest.mark.parametrize("scene", [name for name, card in SCENES.items() if card.since == "API-8"])
def test_scripted_play_earns_the_best_reward_in_the_old_generation_too(scene: str) -> None:
    driver = Gen1Driver(opened(f"{scene}?agents=4&protocol=API-10"), as_modern(best(scene)))
    driver.start()
    driver.steps({"balance": 510, "crowd": 450}.get(scene, 210))
    for name in driver.brains:
        expected = -1.0 if name == "SoccerTeam1" else SCENES[scene].best_reward
        assert len(driver.returns[name]) >= 4
        assert driver.returns[name] == pytest.approx([expected] * len(driver.returns[name]), abs=1e-4)
