"""A player of the old generation: what it says in its handshake, in each output, and how it takes what it is told."""

import struct
import zlib
from collections.abc import Sequence

import pytest

from fakeunity.errors import TrainerMistakeError
from fakeunity.memory import MemoryPlayer
from fakeunity.scenes.catalogue import SCENES
from runtime.players.wire import communicator_gen1_pb2 as pb1
from runtime.players.wire import communicator_pb2 as pb
from tests.peers.old_play import decision
from tests.support.driving import Driver
from tests.support.gen1_driving import Gen1Driver, acts, handshake, message, reset, step
from tests.unit.fakeunity.opening import opened

OLD_SCENES = [name for name, card in SCENES.items() if card.since == "API-8"]
NUMBERS_ONLY = [name for name in OLD_SCENES if name != "gridworld"]


def driven(url: str, *, seed: int = 0) -> Gen1Driver:
    driver = Gen1Driver(opened(url), acts, seed)
    driver.start()
    return driver


def new_style(url: str, *, seed: int = 0) -> Driver:
    """The same scene and actions through 1.5.0."""

    def choose(brain: pb.BrainParametersProto, info: pb.AgentInfoProto) -> pb.AgentActionProto:
        spec = brain.action_spec
        allowed = [not masked for masked in info.action_mask]
        continuous = spec.num_continuous_actions
        chosen = decision(vector_of(info), allowed, continuous, spec.discrete_branch_sizes)
        if continuous:
            return pb.AgentActionProto(continuous_actions=chosen)
        return pb.AgentActionProto(discrete_actions=[int(action) for action in chosen])

    driver = Driver(opened(url), choose, seed)
    driver.start()
    return driver


def vector_of(info: pb.AgentInfoProto) -> list[float]:
    return [value for sensor in info.observations for value in sensor.float_data.data]


@pytest.mark.parametrize("version", ["API-8", "API-9", "API-10"])
def test_the_handshake_tells_version_brains_and_reset_parameters(version: str) -> None:
    driver = driven(f"walljump?protocol={version}&stack=3")
    hello = pb1.UnityMessage.FromString(driver.calls[0]).unity_output
    assert not hello.HasField("rl_output")
    said = hello.rl_initialization_output
    assert (said.name, said.version, said.log_path) == ("Academy", version, "")
    assert dict(said.environment_parameters.float_parameters) == {"wall_height": 0.0}
    (brain,) = said.brain_parameters
    assert (brain.vector_observation_size, brain.num_stacked_vector_observations) == (20, 3)
    assert list(brain.vector_action_size) == [3, 3, 3, 2]
    assert (brain.vector_action_space_type, brain.brain_name, brain.is_training) == (pb1.discrete, "WallJump", True)
    assert driver.calls[1].hex() == "0a0308c801"


def test_versions_differ_in_nothing_but_their_name() -> None:
    runs = []
    for version in ("API-8", "API-9", "API-10"):
        driver = driven(f"crowd?protocol={version}&agents=5")
        driver.steps(60)
        runs.append([call.replace(version.encode(), b"API-x") for call in driver.calls[1:]])
    assert runs[0] == runs[1] == runs[2]


def test_a_camera_is_announced_by_its_resolution_and_sends_one_png_of_it() -> None:
    driver = driven("gridworld?protocol=API-9&agents=1")
    (resolution,) = driver.brains["GridWorld"].camera_resolutions
    assert (resolution.width, resolution.height, resolution.gray_scale) == (84, 84, False)
    (picture,) = driver.infos("GridWorld")[0].visual_observations
    modern = new_style("gridworld?agents=1").waiting["GridWorld"][0]
    assert picture == modern.observations[0].compressed_data


def test_teams_have_names_without_a_query() -> None:
    assert set(driven("soccer?protocol=API-8").brains) == {"SoccerTeam0", "SoccerTeam1"}


def test_every_brain_is_in_every_output_even_before_it_has_agents() -> None:
    driver = driven("crowd?protocol=API-10&agents=2")
    driver.steps(199)
    assert all(not output.agentInfos["CrowdLate"].value for output in driver.outputs)
    driver.step()
    assert len(driver.infos("CrowdLate")) == 2


@pytest.mark.parametrize("scene", NUMBERS_ONLY)
def test_rows_are_those_of_the_new_generation_with_each_end_in_the_row_of_the_next_start(scene: str) -> None:
    old, new = driven(f"{scene}?protocol=API-9&agents=5", seed=4), new_style(f"{scene}?agents=5", seed=4)
    for _ in range(230):
        old.step()
        new.step()
        output = pb.UnityMessageProto.FromString(new.calls[-1]).unity_output.rl_output
        for name, infos in output.agentInfos.items():
            expected = merged(list(infos.value))
            seen = {~info.id: summary(info) for info in old.infos(name.replace("?team=", "Team"))}
            assert seen == expected
    assert sum(len(returns) for returns in old.returns.values()) == new.count.episodes > 0


Row = tuple[float, bool, bool, bytes, tuple[bool, ...]]


def summary(info: pb1.AgentInfoProto) -> Row:
    """Reward, done, max step reached, vector and mask of a row."""
    vector = packed(info.stacked_vector_observation)
    return info.reward, info.done, info.max_step_reached, vector, tuple(info.action_mask)


def packed(values: Sequence[float]) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def merged(infos: Sequence[pb.AgentInfoProto]) -> dict[int, Row]:
    """The same of rows of the new generation, one per agent."""
    rows: dict[int, Row] = {}
    for info in infos:
        vector, mask = packed(vector_of(info)), tuple(info.action_mask)
        if info.id in rows:
            assert info.reward == 0.0
            rows[info.id] = (*rows[info.id][:3], vector, mask)
        else:
            rows[info.id] = (info.reward, info.done, info.max_step_reached, vector, mask)
    return rows


def test_agents_that_leave_are_listed_once_more_after_those_who_stay() -> None:
    old, new = driven("crowd?protocol=API-9&agents=9"), new_style("crowd?agents=9")
    left = 0
    for _ in range(60):
        old.step()
        new.step()
        infos = pb.UnityMessageProto.FromString(new.calls[-1]).unity_output.rl_output.agentInfos["Crowd"].value
        stay = [info.id for info in infos if not info.done]
        gone = [info.id for info in infos if info.done and info.id not in stay]
        assert [~info.id for info in old.infos("Crowd")] == stay + gone
        left += len(gone)
    assert left > 5


def test_the_previous_action_is_stored_and_zero_before_there_is_one() -> None:
    driver = driven("balance?protocol=API-8&agents=3")
    assert all(list(info.stored_vector_actions) == [0.0, 0.0] for info in driver.infos("Balance"))
    for _ in range(80):
        expected = {
            info.id: list(acts(driver.brains["Balance"], info).vector_actions) for info in driver.infos("Balance")
        }
        driver.step()
        assert {info.id: list(info.stored_vector_actions) for info in driver.infos("Balance")} == expected
    assert driver.count.episodes > 0, "a row with an end stores the last action of the episode that ended"
    driver.reset()
    assert all(list(info.stored_vector_actions) == [0.0, 0.0] for info in driver.infos("Balance"))


def test_memories_and_texts_come_back() -> None:
    def choose(brain: pb1.BrainParametersProto, info: pb1.AgentInfoProto) -> pb1.AgentActionProto:
        action = acts(brain, info)
        action.memories.extend([float(info.id), 0.5])
        action.text_actions = f"says {info.id}"
        action.value = 3.0
        return action

    driver = Gen1Driver(opened("basic?protocol=API-9&agents=3"), choose)
    driver.start()
    assert all(not info.memories and not info.stored_text_actions for info in driver.infos("Basic"))
    driver.step()
    for info in driver.infos("Basic"):
        assert list(info.memories) == [float(info.id), 0.5]
        assert info.stored_text_actions == f"says {info.id}"


def test_ids_are_negative_and_stay() -> None:
    driver = driven("basic?protocol=API-9&agents=3")
    ids = [info.id for info in driver.infos("Basic")]
    assert all(agent < 0 for agent in ids)
    driver.steps(120)
    driver.reset()
    assert [info.id for info in driver.infos("Basic")] == ids


def test_vectors_are_stacked_oldest_first_and_blank_where_an_episode_begins() -> None:
    single, stacked = (driven(f"masked?protocol=API-9&agents=2&stack={k}", seed=2) for k in (1, 3))
    # The policies see different vectors, so they are made to act alike.
    for driver in (single, stacked):
        driver.choose = first_free
    history: dict[int, list[list[float]]] = {}
    for _ in range(25):
        for info in single.infos("Masked"):
            frames = history.setdefault(info.id, [])
            if info.done:
                frames.clear()
            frames.append(list(info.stacked_vector_observation))
        for info in stacked.infos("Masked"):
            latest = history[info.id][-3:]
            blanks = [0.0] * 3 * (3 - len(latest))
            assert list(info.stacked_vector_observation) == blanks + [value for frame in latest for value in frame]
        single.step()
        stacked.step()


def first_free(brain: pb1.BrainParametersProto, info: pb1.AgentInfoProto) -> pb1.AgentActionProto:
    mask, sizes = list(info.action_mask), list(brain.vector_action_size)
    return pb1.AgentActionProto(
        vector_actions=[float(mask[: sizes[0]].index(False)), float(mask[sizes[0] :].index(False))]
    )


def test_reset_parameters_and_mode_are_taken_from_a_reset() -> None:
    player = opened("walljump?protocol=API-9")
    driver = Gen1Driver(player, acts)
    driver.start({"wall_height": 3.0})
    assert player.parameters == {"wall_height": 3.0}
    assert player.train_mode is True
    assert driver.infos("WallJump")[0].stacked_vector_observation[19] == 0.75
    player.exchange(reset({"wall_height": 1.0, "unknown": 2.0}, train_mode=False))
    assert player.parameters == {"wall_height": 1.0, "unknown": 2.0}
    assert player.train_mode is False


def test_the_academy_is_done_after_its_steps_and_everybody_with_it() -> None:
    driver = driven("balance?protocol=API-8&agents=4&academy_steps=7")
    for step_number in range(1, 22):
        driver.step()
        is_last = step_number % 7 == 0
        assert driver.latest.global_done is is_last
        if is_last:
            infos = driver.infos("Balance")
            assert all(info.done for info in infos)
            assert [info.max_step_reached for info in infos] == [abs(info.reward - 0.1) < 1e-6 for info in infos]
    assert driver.count.episodes >= 12


def test_a_reset_starts_the_academys_steps_anew() -> None:
    driver = driven("basic?protocol=API-9&academy_steps=5")
    driver.steps(4)
    driver.reset()
    driver.steps(4)
    assert not driver.latest.global_done
    assert driver.step().global_done


def test_an_academy_that_ends_ends_those_who_are_under_way_too() -> None:
    driver = driven("crowd?protocol=API-9&agents=20&academy_steps=3")
    driver.steps(2)
    listed = {info.id for info in driver.infos("Crowd")}
    assert len(listed) < 20, "nobody is under way"
    driver.step()
    done = {info.id for info in driver.infos("Crowd") if info.done}
    assert len(done) == 20


def test_an_academy_without_steps_is_never_done() -> None:
    driver = driven("constant?protocol=API-8")
    driver.steps(100)
    assert not any(output.global_done for output in driver.outputs)


def test_the_teacher_is_watched_and_not_told_what_to_do() -> None:
    driver = driven("teacher?protocol=API-9&agents=3")
    assert {name: brain.is_training for name, brain in driver.brains.items()} == {"Student": True, "Teacher": False}
    before = driver.infos("Teacher")
    for _ in range(30):
        driver.step()
        for seen, info in zip(before, driver.infos("Teacher"), strict=True):
            sign = list(seen.stacked_vector_observation)[:4].index(1.0)
            assert list(info.stored_vector_actions) == [[2.0, 0.0, 3.0, 1.0][sign]]
            assert info.text_observation == "True,False"
            assert info.reward == pytest.approx(0.1)
        before = driver.infos("Teacher")
    assert not any(info.text_observation for info in driver.infos("Student"))


def started(url: str) -> MemoryPlayer:
    player = opened(url)
    player.exchange(None)
    player.exchange(handshake())
    return player


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (step({"Student": [pb1.AgentActionProto(vector_actions=[0])]}), "1 action rows arrived for 2 agents"),
        (step({"Nobody": [pb1.AgentActionProto()]}), "actions for brain 'Nobody'; announced are"),
        (step({"Teacher": [pb1.AgentActionProto(vector_actions=[0])] * 2}), "which the player itself controls"),
        (step({"Student": [pb1.AgentActionProto(vector_actions=[4])] * 2}), "branch 0: action 4 is not in 0..3"),
        (step({"Student": [pb1.AgentActionProto(vector_actions=[0.5])] * 2}), "are no whole numbers"),
        (step({"Student": [pb1.AgentActionProto(vector_actions=[float("inf")])] * 2}), "are no whole numbers"),
        (step({"Student": [pb1.AgentActionProto()] * 2}), "0 discrete actions arrived, expected 1"),
        (b"\xff", "1 bytes arrived that are no UnityMessage"),
        (bytes.fromhex("0a0308c8011a040a022007"), "command 7 arrived"),
    ],
)
def test_what_no_brain_accepts_ends_the_player_and_is_said(reply: bytes, words: str) -> None:
    player = started("teacher?protocol=API-9&agents=2")
    player.exchange(reset())
    with pytest.raises(TrainerMistakeError, match=words.replace("..", r"\.\.")):
        player.exchange(reply)
    assert player.exchange(reset()) is None


def test_an_empty_list_of_actions_is_no_decision() -> None:
    player = started("crowd?protocol=API-9&agents=2")
    player.exchange(reset())
    assert player.exchange(step({"Crowd": [], "CrowdLate": []})) is not None


@pytest.mark.parametrize("answer", [message(), message(400)])
def test_a_reply_without_orders_or_with_another_status_ends_the_player(answer: pb1.UnityMessage) -> None:
    player = started("basic?protocol=API-9")
    player.exchange(reset())
    assert player.exchange(answer.SerializeToString()) is None


def test_the_order_to_quit_ends_the_player() -> None:
    player = started("basic?protocol=API-9")
    answer = message()
    answer.unity_input.rl_input.command = pb1.QUIT
    assert player.exchange(answer.SerializeToString()) is None


def test_a_first_reply_without_handshake_is_refused() -> None:
    player = opened("basic?protocol=API-9")
    player.exchange(None)
    with pytest.raises(TrainerMistakeError, match="no rl_initialization_input"):
        player.exchange(reset())


def test_the_same_seeds_give_the_same_bytes_and_others_do_not() -> None:
    def crc(url: str, seed: int) -> int:
        driver = driven(url, seed=seed)
        driver.steps(50)
        return zlib.crc32(b"".join(driver.calls))

    first = crc("balance?protocol=API-9&agents=3", 1)
    assert first == crc("balance?protocol=API-9&agents=3", 1)
    assert first != crc("balance?protocol=API-9&agents=3", 2)
    assert first != crc("balance?protocol=API-9&agents=3&seed=5", 1)


def test_a_player_of_the_old_generation_names_the_old_method() -> None:
    assert opened("basic?protocol=API-10").exchange_path == "/communicator_objects.UnityToExternal/Exchange"
    assert opened("basic?protocol=1.0.0").exchange_path == "/communicator_objects.UnityToExternalProto/Exchange"
