"""Each fault on the player's side: what is sent instead, when, and that the journal goes on telling the truth."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings

from fakeunity.faults.clock import CrashOrderedError
from fakeunity.faults.plan import FaultPlan
from fakeunity.memory import MemoryPlayer, open_player
from fakeunity.player import Player
from fakeunity.spec import parse_url
from fakeunity.testing.strategies import fault_plans
from runtime.players.wire import communicator_gen1_pb2 as gen1
from runtime.players.wire import communicator_pb2 as pb
from tests.support.driving import Driver, Exchanges, handshake, message, random_choice, reset

FAULT_STEP = 3


@dataclass
class Deeds:
    """A body that writes down what it was asked to do, and dies by an exception."""

    done: list[tuple[str, float | str]] = field(default_factory=list)

    def crash(self, how: str) -> None:
        self.done.append(("crash", how))
        raise CrashOrderedError(how)

    def flood(self, mib: float) -> None:
        self.done.append(("flood", mib))

    def fork(self, seconds: float) -> None:
        self.done.append(("fork", seconds))

    def cut(self, after_bytes: int) -> None:
        self.done.append(("cut", after_bytes))


def opened(faults: str, scene: str = "crowd", **more: object) -> tuple[MemoryPlayer, Deeds]:
    deeds = Deeds()
    query = "&".join([f"fault={faults}", *(f"{key}={value}" for key, value in more.items())])
    return open_player(parse_url(f"fake:{scene}?{query}"), body=deeds), deeds


def started(faults: str, scene: str = "crowd", **more: object) -> Driver:
    driver = Driver(opened(faults, scene, **more)[0], random_choice(0))
    driver.start()
    return driver


def step_call(driver: Driver) -> bytes:
    """The bytes that follow on a step with an action for every agent that waits, whatever they are."""
    answer = message()
    for name, infos in driver.waiting.items():
        rows = [driver.choose(driver.specs[name], info) for info in infos]
        answer.unity_input.rl_input.agent_actions[name].value.extend(rows)
    call = driver.player.exchange(answer.SerializeToString())
    assert call is not None
    return call


def spoiled(faults: str, scene: str = "crowd", **more: object) -> tuple[bytes, bytes]:
    """The call at step FAULT_STEP with these faults, and without."""
    calls = []
    for text in (faults, "hang@step=99999"):
        driver = started(text, scene, **more)
        driver.steps(FAULT_STEP - 1)
        calls.append(step_call(driver))
    return calls[0], calls[1]


def last_line(player: Exchanges, journal: Path) -> Mapping[str, int]:
    """The last line of the journal of a player that is closed now."""
    assert isinstance(player, MemoryPlayer)
    player.close()
    line: Mapping[str, int] = json.loads(next(journal.glob("*.jsonl")).read_text().splitlines()[-1])
    return line


def agents_of(call: bytes, name: str) -> list[pb.AgentInfoProto]:
    return list(pb.UnityMessageProto.FromString(call).unity_output.rl_output.agentInfos[name].value)


def test_a_plan_that_is_never_due_changes_no_byte() -> None:
    for url in ("crowd?agents=3", "masked?agents=2"):
        plain = Driver(open_player(parse_url(f"fake:{url}")), random_choice(0))
        other = Driver(open_player(parse_url(f"fake:{url}&fault=crash@step=9999")), random_choice(0))
        for driver in (plain, other):
            driver.start()
            driver.steps(220)
            driver.reset()
        assert plain.calls == other.calls


@pytest.mark.parametrize("phase", ["connect", "handshake", "reset", "step=2", "exchange=1", "exchange=4", "close"])
def test_a_crash_comes_at_its_phase_and_not_before(phase: str) -> None:
    player, deeds = opened(f"crash:7@{phase}")
    driver = Driver(player, random_choice(0))
    seen: list[str] = []
    acts: list[tuple[str, Callable[[], object]]] = [
        ("connect", player.connect),
        ("handshake", lambda: player.exchange(None)),
        ("exchange=1", lambda: player.exchange(handshake())),
        ("reset", driver.reset),
        ("step=1", driver.step),
        ("step=2", driver.step),
        ("close", driver.close),
    ]

    def live() -> None:
        for name, act in acts:
            seen.append(name)
            act()

    with pytest.raises(CrashOrderedError, match="7"):
        live()
    assert seen[-1] == {"exchange=4": "step=2"}.get(phase, phase)
    assert deeds.done == [("crash", "7")]


@pytest.mark.parametrize(("condition", "steps"), [("", 3), ("+before", 2)])
@pytest.mark.parametrize("verb", ["crash", "hang"])
def test_the_journal_counts_the_step_that_was_taken_and_no_other(
    verb: str, condition: str, steps: int, tmp_path: Path
) -> None:
    player, _ = opened(f"{verb}@step=3{condition}", journal=tmp_path)
    driver = Driver(player, random_choice(0))
    driver.start()
    driver.steps(2)
    if verb == "crash":
        with pytest.raises(CrashOrderedError):
            step_call(driver)
    else:
        assert step_call(driver) == b""
        assert player.next_delay_s() == math.inf
    assert last_line(player, tmp_path)["env_steps"] == steps


def test_a_player_that_hangs_is_silent_for_ever() -> None:
    driver = started("hang@step=1")
    assert step_call(driver) == b""
    assert isinstance(driver.player, MemoryPlayer)
    assert driver.player.exchange(reset()) == b""
    assert [driver.player.next_delay_s() for _ in range(3)] == [math.inf] * 3


def delays(faults: str, count: int = 6) -> list[float]:
    player, _ = opened(faults)
    driver = Driver(player, random_choice(0))
    driver.start()
    found = [player.next_delay_s()]
    for _ in range(count):
        driver.step()
        found.append(player.next_delay_s())
    return found


def test_delays_are_constant_growing_or_drawn_by_the_seed() -> None:
    assert delays("delay:20@step=2-4") == [0.0, 0.0, 0.02, 0.02, 0.02, 0.0, 0.0]
    assert delays("delay:ms=10:grow=5@step") == pytest.approx([0.0, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035])
    drawn = delays("delay:ms=10:sigma=1@step")
    assert len(set(drawn)) == 7
    assert drawn == delays("delay:ms=10:sigma=1@step")


def test_a_log_normal_delay_has_its_median_where_it_was_asked() -> None:
    drawn = sorted(delays("delay:ms=10:sigma=1@step", count=400)[1:])
    assert 0.008 < drawn[200] < 0.0125
    assert 0.025 < drawn[360] < 0.05  # e^1.28 times the median


def test_a_truncated_call_is_the_beginning_of_the_true_one() -> None:
    half, whole = spoiled(f"truncate@step={FAULT_STEP}")
    assert half == whole[: len(whole) // 2]
    assert spoiled(f"truncate:37@step={FAULT_STEP}")[0] == whole[:37]


@pytest.mark.parametrize("size", [1, 2, 64, 65, 4096])
def test_garbage_is_no_message_of_either_generation(size: int) -> None:
    garbage, _ = spoiled(f"garbage:{size}@step={FAULT_STEP}")
    assert len(garbage) == size
    for kind in (pb.UnityMessageProto, gen1.UnityMessage):
        with pytest.raises(DecodeError):
            kind.FromString(garbage)


@pytest.mark.parametrize("protocol", ["API-9", "1.5.0"])
@pytest.mark.parametrize("text", ["9.9.9", ""])
def test_a_wrong_or_empty_version_is_told(protocol: str, text: str) -> None:
    player, _ = opened(f"version:{text}@handshake", "basic", protocol=protocol)
    hello = player.exchange(None)
    assert hello is not None
    kind, name = (
        (gen1.UnityMessage, "version") if protocol == "API-9" else (pb.UnityMessageProto, "communication_version")
    )
    assert getattr(kind.FromString(hello).unity_output.rl_initialization_output, name) == text


@pytest.mark.parametrize("verb", ["nan", "inf", "huge"])
def test_a_number_is_spoiled_at_its_agent_sensor_and_index_only(verb: str) -> None:
    wrong, right = spoiled(f"{verb}:agent=2:index=1:sensor=1@step={FAULT_STEP}", "hybrid")
    changed = []
    for spoilt, sound in zip(agents_of(wrong, "Hybrid"), agents_of(right, "Hybrid"), strict=True):
        for sensor, (ours, theirs) in enumerate(zip(spoilt.observations, sound.observations, strict=True)):
            for index, pair in enumerate(zip(ours.float_data.data, theirs.float_data.data, strict=True)):
                if pair[0] != pair[1]:
                    changed.append((spoilt.id, sensor, index, pair[0]))
    assert [place[:3] for place in changed] == [(2, 1, 1)]
    assert str(changed[0][3]) == {"nan": "nan", "inf": "inf"}.get(verb, str(changed[0][3]))
    assert verb != "huge" or math.isfinite(changed[0][3])


def test_a_reward_is_spoiled() -> None:
    wrong, _ = spoiled(f"nan:field=reward@step={FAULT_STEP}")
    assert [math.isnan(info.reward) for info in agents_of(wrong, "Crowd")].count(True) == 1


def test_an_agent_is_sent_twice() -> None:
    wrong, right = spoiled(f"duplicate:agent=5@step={FAULT_STEP}")
    ids = [info.id for info in agents_of(right, "Crowd")]
    assert sorted(info.id for info in agents_of(wrong, "Crowd")) == sorted([*ids, 5])


def test_an_agent_vanishes_for_good_and_the_others_go_on(tmp_path: Path) -> None:
    driver = started("vanish:agent=2@step=5", "constant", journal=tmp_path)
    for number in range(1, 50):
        driver.step()
        ids = {info.id for info in driver.waiting["Constant"]}
        assert (2 in ids) == (number < 5)
        assert len(ids) == (4 if number < 5 else 3)
    last = last_line(driver.player, tmp_path)
    assert (last["decisions"], last["agent_steps"]) == (driver.count.decisions, driver.count.agent_steps)


def test_no_agents_are_sent_while_the_world_waits_and_nothing_is_lost() -> None:
    driver, plain = started("empty@step=5-24", "constant"), started("hang@step=9999", "constant")
    for number in range(1, 60):
        driver.step()
        assert bool(driver.waiting["Constant"]) == (not 5 <= number <= 24)
    plain.steps(39)
    assert driver.calls[-1] == plain.calls[-1]
    assert driver.count.agent_steps == plain.count.agent_steps
    assert driver.returns == plain.returns


def test_ten_thousand_agents_come_and_are_counted(tmp_path: Path) -> None:
    driver = started("agents:10000@step=2-3", "basic", journal=tmp_path)
    driver.step()
    for _ in range(2):
        driver.step()
        assert len(driver.waiting["Basic"]) == 10_001
    driver.steps(2)
    assert len(driver.waiting["Basic"]) == 1
    last = last_line(driver.player, tmp_path)
    counted = (driver.count.env_steps, driver.count.decisions, driver.count.agent_steps)
    assert (last["env_steps"], last["decisions"], last["agent_steps"]) == counted
    assert counted[1] == 5 + 2 * 10_000


@pytest.mark.parametrize(("scene", "branch_size"), [("masked", 210), ("basic", 3)])
def test_every_action_of_a_branch_is_forbidden(scene: str, branch_size: int) -> None:
    wrong, _ = spoiled(f"mask:agent=0@step={FAULT_STEP}", scene, agents=2)
    name = scene.capitalize()
    waiting = [info for info in agents_of(wrong, name) if not info.done]
    assert waiting[0].id == 0
    assert all(waiting[0].action_mask[:branch_size])
    assert not all(waiting[1].action_mask[:branch_size])


@pytest.mark.parametrize("protocol", ["API-8", "1.5.0"])
def test_an_observation_is_one_number_longer_than_announced(protocol: str) -> None:
    lengths = []
    for text in ("reshape@reset", "hang@step=9"):
        player, _ = opened(text, "basic", protocol=protocol)
        player.exchange(None)
        player.exchange(handshake() if protocol == "1.5.0" else _gen1_handshake())
        call = player.exchange(reset())
        assert call is not None
        if protocol == "1.5.0":
            observation = agents_of(call, "Basic")[0].observations[0]
            assert list(observation.shape) == [len(observation.float_data.data)]
            lengths.append(len(observation.float_data.data))
        else:
            rows = gen1.UnityMessage.FromString(call).unity_output.rl_output.agentInfos
            lengths.append(len(next(iter(rows.values())).value[0].stacked_vector_observation))
    assert lengths == [21, 20]


def _gen1_handshake() -> bytes:
    answer = gen1.UnityMessage(header=gen1.Header(status=200))
    answer.unity_input.rl_initialization_input.seed = 3
    return answer.SerializeToString()


def test_a_known_behavior_is_announced_again_with_other_actions() -> None:
    wrong, _ = spoiled(f"respec@step={FAULT_STEP}", "basic")
    (again,) = pb.UnityMessageProto.FromString(wrong).unity_output.rl_initialization_output.brain_parameters
    assert again.brain_name == "Basic"
    assert again.action_spec.num_continuous_actions == 1000


def test_a_stranger_has_agents_and_no_announcement() -> None:
    wrong, right = spoiled(f"stranger:name=Nobody@step={FAULT_STEP}", "basic")
    assert len(agents_of(wrong, "Nobody")) == 1
    assert agents_of(wrong, "Basic") == agents_of(right, "Basic")
    assert not pb.UnityMessageProto.FromString(wrong).unity_output.HasField("rl_initialization_output")


def test_a_padded_call_is_as_long_as_asked_and_means_the_same() -> None:
    padded, plain = spoiled(f"pad:mib=2@step={FAULT_STEP}")
    assert 2 << 20 <= len(padded) - len(plain) < (2 << 20) + 16
    parsed = pb.UnityMessageProto.FromString(padded)
    parsed.DiscardUnknownFields()
    assert parsed == pb.UnityMessageProto.FromString(plain)


def test_floods_children_and_cuts_are_the_bodys_work() -> None:
    player, deeds = opened("flood:mib=3@step=1;fork:s=9@step=1;rst:37@step=2")
    driver = Driver(player, random_choice(0))
    driver.start()
    driver.steps(2)
    assert deeds.done == [("fork", 9.0), ("flood", 3.0), ("cut", 37)]


def test_what_happened_is_reported_once_per_fault() -> None:
    lines: list[str] = []
    spec = parse_url("fake:basic?fault=delay:1@step;nan@step=2")
    driver = Driver(open_player(spec, report=lines.append), random_choice(0))
    driver.start()
    driver.steps(4)
    assert lines == [
        "as ordered: delay:ms=1.0:grow=0.0:sigma=0.0@step (exchange 3)",
        "as ordered: nan:agent=-1:index=0:sensor=0:field=observation@step=2-2 (exchange 4)",
    ]


def test_faults_of_other_environments_and_incarnations_do_not_happen() -> None:
    spec = parse_url("fake:basic?fault=crash@step=1+env=1+incarnation=2")
    for who in ((0, 2), (1, 1)):
        driver = Driver(open_player(spec, env_id=who[0], incarnation=who[1]), random_choice(0))
        driver.start()
        driver.steps(3)
    driver = Driver(open_player(spec, env_id=1, incarnation=2), random_choice(0))
    driver.start()
    with pytest.raises(CrashOrderedError):
        driver.step()


def test_two_crowds_in_one_message_have_numbers_of_their_own() -> None:
    driver = Driver(
        open_player(parse_url("fake:constant?agents=3&fault=agents:2@reset;agents:1@reset")), random_choice(0)
    )
    driver.start()
    assert len({info.id for info in driver.waiting["Constant"]}) == 3 + 2 + 1


HARMLESS = ("agents", "delay", "flood", "fork", "huge", "inf", "nan", "pad", "reshape", "rst", "vanish")


@settings(max_examples=30)
@given(fault_plans(verbs=HARMLESS, numbers_max=12))
def test_a_player_with_any_plan_goes_on_and_counts_what_it_sent(plan: FaultPlan) -> None:
    text = str(plan)
    player = open_player(parse_url("fake:constant?agents=3" + (f"&fault={text}" if text else "")), body=Deeds())
    driver = Driver(player, random_choice(1))
    driver.start()
    driver.steps(25)
    assert isinstance(player._player, Player)
    ours, theirs = driver.count, player._player.counters
    assert ours.env_steps == theirs.env_steps == 25
    assert (ours.decisions, ours.agent_steps) == (theirs.decisions, theirs.agent_steps)
    assert ours.episodes == theirs.episodes
