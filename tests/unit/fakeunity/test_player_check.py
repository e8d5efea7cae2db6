"""The check of players passes every scene in every generation, and each of its rules has a player that breaks it."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakeunity.faults.clock import CrashOrderedError
from fakeunity.faults.plan import FaultPlan
from fakeunity.faults.verbs import VERBS
from fakeunity.memory import MemoryPlayer, open_player
from fakeunity.protocols import since
from fakeunity.scenes.catalogue import SCENES
from fakeunity.spec import parse_url
from fakeunity.testing.checks import PLAYER_RULES, ConformanceError, Talks, check_player
from fakeunity.testing.strategies import fault_plans
from runtime.players.wire import communicator_gen1_pb2 as gen1
from runtime.players.wire import communicator_pb2 as pb

Bend = Callable[[int, pb.UnityMessageProto], None]
PLAYED = [(scene, version) for scene, card in SCENES.items() for version in ("API-8", *since("1.0.0"))[::3]]


class Bent:
    """A sound player whose calls are changed on their way. bend: gets a call's number, from 0, and its message."""

    def __init__(self, player: MemoryPlayer, bend: Bend) -> None:
        self._player = player
        self._bend = bend
        self._count = -1

    def exchange(self, request_reply: bytes | None) -> bytes | None:
        """The changed call."""
        call = self._player.exchange(request_reply)
        self._count += 1
        message = pb.UnityMessageProto.FromString(call or b"")
        self._bend(self._count, message)
        return message.SerializeToString() or None

    def close(self) -> None:
        """Ends the player."""
        self._player.close()


def faulty(fault: str, scene: str = "masked") -> Callable[[], Talks]:
    return lambda: open_player(parse_url(f"fake:{scene}?agents=3&fault={fault}"))


def bent(bend: Bend) -> Callable[[], Talks]:
    return lambda: Bent(open_player(parse_url("fake:masked?agents=3")), bend)


def knows_too_much(count: int, message: pb.UnityMessageProto) -> None:
    if count == 0:
        message.unity_output.rl_initialization_output.communication_version = "1.2.0"


def says_more_at_once(count: int, message: pb.UnityMessageProto) -> None:
    if count == 1:
        message.unity_output.rl_output.side_channel = b"1"


def can_do_nothing(_count: int, message: pb.UnityMessageProto) -> None:
    for brain in message.unity_output.rl_initialization_output.brain_parameters:
        brain.action_spec.Clear()
        brain.action_spec.num_continuous_actions = 0


def ends_a_stranger(count: int, message: pb.UnityMessageProto) -> None:
    if count == 5:
        rows = message.unity_output.rl_output.agentInfos["Masked"].value
        rows.add().CopyFrom(rows[0])
        rows[-1].done, rows[-1].id = True, 77


def interrupts_who_goes_on(count: int, message: pb.UnityMessageProto) -> None:
    if count == 5:
        message.unity_output.rl_output.agentInfos["Masked"].value[0].max_step_reached = True


def cuts_a_mask(count: int, message: pb.UnityMessageProto) -> None:
    if count == 5:
        del message.unity_output.rl_output.agentInfos["Masked"].value[0].action_mask[-1:]


def goes_on_when_told_to_stop(count: int, message: pb.UnityMessageProto) -> None:
    if count == 24:
        message.header.status = 200


def leaves_control_unset(_count: int, message: pb.UnityMessageProto) -> None:
    for brain in message.unity_output.rl_initialization_output.brain_parameters:
        brain.ClearField("is_training")


def shows_nobody(count: int, message: pb.UnityMessageProto) -> None:
    if count >= 2 and message.unity_output.HasField("rl_output"):
        message.unity_output.ClearField("rl_initialization_output")
        message.unity_output.rl_output.ClearField("agentInfos")


def forgetful() -> Callable[[], Talks]:
    """Opens another player each time."""
    seeds = iter(range(10))
    return lambda: open_player(parse_url(f"fake:masked?seed={next(seeds)}"))


BREAKERS: list[tuple[str, Callable[[], Talks]]] = [
    ("hello", faulty("garbage@handshake")),
    ("hello", faulty("truncate:bytes=0@handshake")),
    ("version", faulty("version:0.15.0@handshake")),
    ("version", faulty("version@handshake")),
    ("capabilities", bent(knows_too_much)),
    ("second call", faulty("garbage@exchange=1")),
    ("second call", bent(says_more_at_once)),
    ("message", faulty("truncate@step=3")),
    ("announced", faulty("stranger@step=3")),
    ("announced", faulty("respec@step=3")),
    ("actions", bent(can_do_nothing)),
    ("ids", faulty("duplicate@step=3")),
    ("shape", faulty("reshape@step=3")),
    ("finite", faulty("nan@step=3")),
    ("finite", faulty("inf:field=reward@step=3")),
    ("mask", faulty("mask@step=3")),
    ("mask", bent(cuts_a_mask)),
    ("end", bent(ends_a_stranger)),
    ("end", bent(interrupts_who_goes_on)),
    ("repeat", forgetful()),
    ("decisions", bent(shows_nobody)),
    ("stop", bent(goes_on_when_told_to_stop)),
]


@pytest.mark.parametrize(("scene", "version"), PLAYED)
def test_every_scene_keeps_the_contract(scene: str, version: str) -> None:
    if version not in since(SCENES[scene].since):
        version = "1.5.0"
    steps = 210 if scene == "crowd" else 40
    facts = check_player(lambda: open_player(parse_url(f"fake:{scene}?agents=2&protocol={version}")), steps=steps)
    assert (facts.version, facts.messages) == (version, steps + 2)
    assert facts.decisions > steps // 2
    assert len(facts.behaviors) == (2 if scene in ("soccer", "teacher", "crowd") else 1)


@pytest.mark.parametrize(("rule", "opener"), BREAKERS, ids=[f"{rule}-{n}" for n, (rule, _) in enumerate(BREAKERS)])
def test_a_player_that_breaks_a_rule_is_found(rule: str, opener: Callable[[], Talks]) -> None:
    with pytest.raises(ConformanceError) as caught:
        check_player(opener, steps=20)
    assert caught.value.rule == rule, str(caught.value)
    assert str(caught.value).startswith(PLAYER_RULES[rule])


def test_each_rule_has_a_player_that_breaks_it() -> None:
    assert {rule for rule, _ in BREAKERS} == set(PLAYER_RULES)


@pytest.mark.parametrize(
    ("rule", "fault"), [("finite", "nan@step=3"), ("shape", "reshape@step=3"), ("mask", "mask@step=3")]
)
def test_a_player_that_never_says_who_acts_is_played_and_found(rule: str, fault: str) -> None:
    def unset(query: str) -> Callable[[], Talks]:
        return lambda: Bent(open_player(parse_url(f"fake:masked?agents=3{query}")), leaves_control_unset)

    assert check_player(unset(""), steps=20) == check_player(faulty("pad@step=1"), steps=20)
    with pytest.raises(ConformanceError) as caught:
        check_player(unset(f"&fault={fault}"), steps=20)
    assert caught.value.rule == rule


def test_only_a_player_that_says_true_of_a_behavior_keeps_the_others_for_itself() -> None:
    def played(bend: Bend) -> int:
        return check_player(lambda: Bent(open_player(parse_url("fake:teacher?agents=2")), bend), steps=20).decisions

    def as_it_is(_count: int, _message: pb.UnityMessageProto) -> None:
        return

    assert played(leaves_control_unset) > played(as_it_is) > 0


def nothing_is_the_trainers(count: int, message: pb.UnityMessageProto) -> None:
    if count == 0:
        told = gen1.UnityMessage.FromString(message.SerializeToString())
        for brain in told.unity_output.rl_initialization_output.brain_parameters:
            brain.is_training = False
        message.ParseFromString(told.SerializeToString())


def test_a_player_of_the_old_generation_that_keeps_everything_for_itself_tests_nothing() -> None:
    with pytest.raises(ConformanceError) as caught:
        check_player(lambda: Bent(open_player(parse_url("fake:masked?protocol=API-9")), nothing_is_the_trainers))
    assert caught.value.rule == "decisions"


@pytest.mark.parametrize("fault", ["nan@step=3", "mask@step=3", "duplicate@step=3", "garbage@step=3"])
def test_players_of_the_old_generation_are_found_too(fault: str) -> None:
    with pytest.raises(ConformanceError):
        check_player(lambda: open_player(parse_url(f"fake:masked?protocol=API-9&fault={fault}")), steps=20)


def test_a_player_that_does_not_repeat_itself_passes_where_it_need_not() -> None:
    assert check_player(forgetful(), steps=20, is_repeatable=False).messages == 22


@given(fault_plans(verbs=[name for name, verb in VERBS.items() if not verb.needs_process], numbers_max=12), st.data())
def test_whatever_a_player_does_wrong_the_check_passes_or_names_a_rule(plan: FaultPlan, data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(["API-8", "1.0.0", "1.5.0"]))
    spec = replace(parse_url(f"fake:masked?agents=2&protocol={version}"), faults=plan)
    try:
        check_player(lambda: open_player(spec), steps=12)
    except ConformanceError as error:
        broken = error.rule
    except CrashOrderedError:
        broken = "crash"
    else:
        return
    assert broken in PLAYER_RULES or any(fault.verb == broken for fault in plan.faults)


class Says:
    """Says the same whatever it hears."""

    def __init__(self, call: bytes) -> None:
        self._call = call

    def exchange(self, request_reply: bytes | None) -> bytes | None:
        """These bytes."""
        return self._call

    def close(self) -> None:
        """Nothing to do."""


def test_a_hello_that_only_its_own_generation_cannot_read_is_no_hello() -> None:
    """Reset parameters, which came later to mean nothing, of two bytes that are no message."""
    told = "1205" + b"API-8".hex() + "3202ffff"
    output = f"12{len(told) // 2:02x}" + told
    with pytest.raises(ConformanceError) as caught:
        check_player(lambda: Says(bytes.fromhex(f"0a0308c80112{len(output) // 2:02x}" + output)))
    assert caught.value.rule == "hello"


@given(st.sampled_from([b"", bytes.fromhex("0a0308c801")]), st.binary(max_size=60))
def test_any_bytes_are_judged(header: bytes, body: bytes) -> None:
    with pytest.raises(ConformanceError):
        check_player(lambda: Says(header + body), steps=2)
