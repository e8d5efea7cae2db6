"""What each version of 1.x may say, and how it is cut down for a trainer that can read less."""

from collections.abc import Iterator

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from fakeunity.errors import TrainerMistakeError
from fakeunity.memory import MemoryPlayer
from fakeunity.protocols import CAPABILITIES, PROTOCOLS, since
from fakeunity.scenes.catalogue import SCENES
from runtime.players.wire import communicator_pb2 as pb
from tests.support.driving import CAPABILITIES as ALL
from tests.support.driving import Choice, Driver, handshake, message, random_choice, reset
from tests.support.scripted import actions
from tests.unit.fakeunity.opening import opened

GEN2 = since("1.0.0")
MESSAGES_MAX = 40

# Fields that came with a version later than 1.0, as the protocol's tables have them.
SINCE = {
    ("UnityRLCapabilitiesProto", "concatenatedPngObservations"): "1.1.0",
    ("UnityRLCapabilitiesProto", "compressedChannelMapping"): "1.2.0",
    ("UnityRLCapabilitiesProto", "hybridActions"): "1.3.0",
    ("UnityRLCapabilitiesProto", "trainingAnalytics"): "1.4.0",
    ("UnityRLCapabilitiesProto", "variableLengthObservation"): "1.5.0",
    ("UnityRLCapabilitiesProto", "multiAgentGroups"): "1.5.0",
    ("BrainParametersProto", "action_spec"): "1.3.0",
    ("AgentInfoProto", "group_id"): "1.5.0",
    ("AgentInfoProto", "group_reward"): "1.5.0",
    ("ObservationProto", "compressed_channel_mapping"): "1.2.0",
    ("ObservationProto", "dimension_properties"): "1.4.0",
    ("ObservationProto", "observation_type"): "1.4.0",
    ("ObservationProto", "name"): "1.5.0",
}


def fields_of(sent: Message) -> Iterator[tuple[str, str]]:
    """Message type and name of every field that is there, at any depth."""
    for field, value in sent.ListFields():
        yield sent.DESCRIPTOR.name, field.name
        if field.type != FieldDescriptor.TYPE_MESSAGE:
            continue
        if isinstance(value, Message):
            yield from fields_of(value)
        else:
            for part in value.values() if hasattr(value, "values") else value:
                yield from fields_of(part)


def old_choice() -> Choice:
    """Random legal actions in the one list that trainers before 1.3 send."""
    random = random_choice(0)

    def choose(brain: pb.BrainParametersProto, info: pb.AgentInfoProto) -> pb.AgentActionProto:
        described = brain
        if not brain.HasField("action_spec"):
            described = pb.BrainParametersProto()
            sizes = list(brain.vector_action_size_deprecated)
            if brain.vector_action_space_type_deprecated == pb.continuous:
                described.action_spec.num_continuous_actions = sizes[0]
            else:
                described.action_spec.discrete_branch_sizes.extend(sizes)
        action = random(described, info)
        return pb.AgentActionProto(vector_actions_deprecated=[*action.continuous_actions, *action.discrete_actions])

    return choose


class OldTrainer(Driver):
    """A driver whose handshake has the capabilities of an older trainer."""

    def meet(self, capabilities: tuple[str, ...], version: str = "1.0.0", package: str = "0.16.1") -> None:
        """Handshake and first reset."""
        self._next(None)
        self._next(handshake(self.seed, version, capabilities=capabilities, package=package))
        self.reset()


def met(url: str, capabilities: tuple[str, ...], version: str = "1.0.0") -> OldTrainer:
    """A driver of a trainer with these capabilities, after the first reset."""
    choose = random_choice(0) if "hybridActions" in capabilities else old_choice()
    driver = OldTrainer(opened(url), choose)
    driver.meet(capabilities, version)
    return driver


@pytest.mark.parametrize(
    ("scene", "version"),
    [(name, version) for name, card in SCENES.items() for version in GEN2 if version in since(card.since)],
)
def test_a_version_says_nothing_that_came_later(scene: str, version: str) -> None:
    speaks = PROTOCOLS[version].capabilities()
    driver = met(f"{scene}?protocol={version}&agents=3&stack=2", ALL if "hybridActions" in speaks else speaks)
    driver.steps(MESSAGES_MAX)
    seen = {pair for call in driver.calls for pair in fields_of(pb.UnityMessageProto.FromString(call))}
    late = {pair for pair in seen if pair in SINCE and PROTOCOLS[SINCE[pair]].rank > PROTOCOLS[version].rank}
    assert not late
    if version == "1.5.0":
        assert not {name for _, name in seen if "deprecated" in name}


@pytest.mark.parametrize("version", GEN2)
def test_the_first_call_tells_version_package_and_capabilities(version: str) -> None:
    hello = pb.UnityMessageProto.FromString(opened(f"basic?protocol={version}").exchange(None) or b"")
    said = hello.unity_output.rl_initialization_output
    assert said.communication_version == version
    assert said.package_version == PROTOCOLS[version].package
    told = {field.name for field, _ in said.capabilities.ListFields()}
    assert told == {name for name, minor in CAPABILITIES.items() if minor <= int(version[2])}
    assert not said.brain_parameters


@pytest.mark.parametrize(
    ("scene", "sizes", "space"),
    [("masked", [210, 4], pb.discrete), ("balance", [2], pb.continuous), ("walljump", [3, 3, 3, 2], pb.discrete)],
)
@pytest.mark.parametrize(("version", "knows"), [("1.0.0", ALL), ("1.2.0", ALL), ("1.5.0", ("baseRLCapabilities",))])
def test_actions_are_announced_the_old_way_where_one_side_knows_no_other(
    scene: str, sizes: list[int], space: int, version: str, knows: tuple[str, ...]
) -> None:
    driver = OldTrainer(opened(f"{scene}?protocol={version}&agents=2"), old_choice())
    driver.meet(knows)
    (brain,) = driver.specs.values()
    assert list(brain.vector_action_size_deprecated) == sizes
    assert brain.vector_action_space_type_deprecated == space
    assert not brain.HasField("action_spec")
    driver.steps(20)
    assert driver.count.decisions == 40


def test_a_player_before_1_3_reads_no_other_actions_than_the_old_ones() -> None:
    driver = OldTrainer(opened("basic?protocol=1.2.0"), lambda _p, _i: actions(discrete=[1]))
    driver.meet(ALL)
    with pytest.raises(TrainerMistakeError, match="row of 0 discrete actions arrived, expected 1"):
        driver.step()


def first_rows(url: str, capabilities: tuple[str, ...]) -> list[pb.AgentInfoProto]:
    (infos,) = met(url, capabilities, "1.5.0").waiting.values()
    return infos


@pytest.mark.parametrize(
    ("scene", "words"),
    [
        ("hybrid", "'Hybrid' has continuous and discrete actions, and the trainer does not say"),
        ("buffer", "'Buffer' sees a changing number of things, and the trainer does not say"),
    ],
)
def test_what_an_old_trainer_cannot_do_at_all_is_refused(scene: str, words: str) -> None:
    with pytest.raises(TrainerMistakeError, match=words):
        met(scene, ("baseRLCapabilities",))


def test_groups_are_left_out_for_a_trainer_that_does_not_know_them() -> None:
    without = tuple(name for name in ALL if name != "multiAgentGroups")
    assert [info.group_id for info in first_rows("pushblock_group?agents=4", without)] == [0] * 4
    assert [info.group_id for info in first_rows("pushblock_group?agents=4", ALL)] == [1, 1, 1, 2]


def camera(url: str, capabilities: tuple[str, ...] = ALL) -> pb.ObservationProto:
    return next(o for o in first_rows(url, capabilities)[0].observations if len(o.shape) == 3)


@pytest.mark.parametrize(
    ("options", "shape", "properties"),
    [
        ("", [3, 84, 84], [1, 2, 2]),
        ("&layout=chw", [3, 84, 84], [1, 2, 2]),
        ("&layout=hwc", [84, 84, 3], [2, 2, 1]),
        ("&package=2.0.1", [84, 84, 3], [2, 2, 1]),
        ("&package=4.0.0", [3, 84, 84], [1, 2, 2]),
        ("&protocol=1.4.0", [84, 84, 3], [2, 2, 1]),
        ("&protocol=1.0.0", [84, 84, 3], []),
        ("&stack=3", [9, 84, 84], [1, 2, 2]),
        ("&stack=3&layout=hwc", [84, 84, 9], [2, 2, 1]),
    ],
)
def test_pictures_have_the_shape_of_their_layout(options: str, shape: list[int], properties: list[int]) -> None:
    speaks = ALL if "protocol" not in options else PROTOCOLS[options[-5:]].capabilities()
    seen = camera(f"gridworld?agents=1{options}", speaks)
    assert list(seen.shape) == shape
    assert list(seen.dimension_properties) == properties
    assert seen.compression_type == pb.PNG


@pytest.mark.parametrize(
    ("options", "package"),
    [("", "3.0.0"), ("layout=hwc", "2.3.0-exp.3"), ("layout=hwc&package=3.0.0", "3.0.0"), ("package=2.0.1", "2.0.1")],
)
def test_the_package_fits_the_layout_unless_it_is_given(options: str, package: str) -> None:
    hello = pb.UnityMessageProto.FromString(
        opened(f"gridworld?{options}" if options else "gridworld").exchange(None) or b""
    )
    assert hello.unity_output.rl_initialization_output.package_version == package


def test_a_goal_is_marked_from_1_4_on() -> None:
    for version, kind in (("1.3.0", pb.DEFAULT), ("1.4.0", pb.GOAL_SIGNAL), ("1.5.0", pb.GOAL_SIGNAL)):
        capabilities = PROTOCOLS[version].capabilities()
        (goal,) = (
            o for o in first_rows(f"gridworld?protocol={version}", capabilities)[0].observations if len(o.shape) == 1
        )
        assert goal.observation_type == kind


def test_a_buffer_has_its_two_dimensions_and_says_which_of_them_changes() -> None:
    (seen,) = first_rows("buffer?agents=1", ALL)[0].observations
    assert list(seen.shape) == [8, 2]
    assert list(seen.dimension_properties) == [4, 1]
    assert len(seen.float_data.data) == 16


def test_observations_come_in_the_order_of_their_names() -> None:
    for url in ("gridworld?agents=1", "gridworld?agents=1&stack=2", "hybrid?agents=1&stack=4"):
        names = [o.name for o in first_rows(url, ALL)[0].observations]
        assert names == sorted(names)
        assert len(names) > 1


GATED = "the trainer is of package '{}', and Unity's package 1.0.8 turns away any above 0.25.999"


@pytest.mark.parametrize(
    ("package", "is_refused"), [("0.16.1", False), ("0.25.999.dev0", False), ("0.26.0", True), ("1.1.0", True)]
)
def test_the_verified_package_turns_newer_trainers_away(package: str, *, is_refused: bool) -> None:
    driver = OldTrainer(opened("basic?protocol=1.0.0&package=1.0.8"), old_choice())
    if is_refused:
        with pytest.raises(TrainerMistakeError, match=GATED.format(package).replace(".", r"\.")):
            driver.meet(("baseRLCapabilities",), package=package)
    else:
        driver.meet(("baseRLCapabilities",), package=package)
        assert driver.waiting


@pytest.mark.parametrize("package", ["1.0.4", "1.3.0-preview"])
def test_other_packages_of_that_time_do_not(package: str) -> None:
    driver = OldTrainer(opened(f"basic?protocol=1.0.0&package={package}"), old_choice())
    driver.meet(("baseRLCapabilities",), package="1.1.0")
    assert driver.waiting


def player_controlled(player: MemoryPlayer, actions_sent: dict[str, int]) -> pb.UnityRLOutputProto:
    answer = message()
    for name, action in actions_sent.items():
        rows = [actions(discrete=[action])] * 2
        answer.unity_input.rl_input.agent_actions[name].value.extend(rows)
    call = player.exchange(answer.SerializeToString())
    assert call is not None
    return pb.UnityMessageProto.FromString(call).unity_output.rl_output


def test_the_teacher_of_the_new_generation_does_what_it_likes_and_shows_it() -> None:
    player = opened("teacher?agents=2")
    player.exchange(None)
    player.exchange(handshake())
    first = pb.UnityMessageProto.FromString(player.exchange(reset()) or b"").unity_output
    announced = first.rl_initialization_output.brain_parameters
    assert {brain.brain_name: brain.is_training for brain in announced} == {"Student": True, "Teacher": False}
    output = first.rl_output
    for _ in range(9):
        signs = [
            list(info.observations[0].float_data.data)[:4].index(1.0) for info in output.agentInfos["Teacher"].value
        ]
        output = player_controlled(player, {"Student": 3, "Teacher": 3})
        keys = [
            list(info.observations[0].float_data.data)[4:].index(1.0) for info in output.agentInfos["Teacher"].value
        ]
        assert keys == [[2, 0, 3, 1][sign] for sign in signs]


def test_a_command_that_is_none_is_refused() -> None:
    player = opened("basic")
    player.exchange(None)
    player.exchange(handshake())
    with pytest.raises(TrainerMistakeError, match="command 7 arrived, expected STEP 0, RESET 1 or QUIT 2"):
        player.exchange(bytes.fromhex("0a0308c8011a040a022007"))
