"""Which players are accepted, what they are told, and how others are refused."""

import pytest

from runtime.errors import PlayerProtocolError, VersionMismatchError
from runtime.players.handshake import encode_answer, hello, introduction, require_version
from runtime.players.places import Place
from runtime.players.wire import communicator_pb2 as pb
from tests.support.player_messages import introduction_message, output_message

PLACE = Place(2, 1)


def told(version: str, package: str = "3.0.0") -> pb.UnityRLInitializationOutputProto:
    return introduction(introduction_message(version, package), PLACE)


@pytest.mark.parametrize("version", ["1.0.0", "1.5.0", "1.9.3", "1.0"])
def test_any_minor_version_of_the_first_generation_of_communicator_1_is_accepted(version: str) -> None:
    require_version(told(version), PLACE)
    assert hello(told(version), pid=4).protocol == version


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("API-11", "ML-Agents 0.11"),
        ("API-14", "ML-Agents 0.14"),
        ("0.15.0", "ML-Agents 0.15"),
        ("0.16.0", "a release before 1.0"),
        ("2.0.0", "newer than this trainer"),
        ("API-9", "call another service than"),
        ("nonsense", "no version of the communicator"),
        ("", "no version of the communicator"),
    ],
)
def test_other_versions_are_refused_with_both_versions_and_a_cure(version: str, words: str) -> None:
    with pytest.raises(VersionMismatchError) as caught:
        require_version(told(version, "9.8.7"), PLACE)
    text = str(caught.value)
    for part in ("environment 2 (incarnation 1)", repr(version), "'9.8.7'", "1.5.0", "API-8, API-9, API-10", words):
        assert part in text
    assert not caught.value.is_restartable


@pytest.mark.parametrize("version", ["API-12", "0.15.0"])
def test_transitional_players_learn_the_first_supported_release(version: str) -> None:
    with pytest.raises(VersionMismatchError, match=r"com\.unity\.ml-agents 1\.0\.0 \(Release 1\) or newer"):
        require_version(told(version), PLACE)


def test_the_answer_carries_seed_versions_areas_and_capabilities() -> None:
    message = pb.UnityMessageProto.FromString(encode_answer(told("1.5.0"), seed=123, num_areas=4))
    answer = message.unity_input.rl_initialization_input
    assert message.header.status == 200
    assert (answer.seed, answer.num_areas) == (123, 4)
    assert (answer.communication_version, answer.package_version) == ("1.5.0", "1.1.0")
    assert answer.capabilities.baseRLCapabilities
    assert answer.capabilities.hybridActions
    assert not answer.capabilities.trainingAnalytics


@pytest.mark.parametrize(
    ("package", "answer"),
    [("1.0.5", "0.16.1"), ("1.0.0-preview", "0.16.1"), ("1.0", "0.16.1"), ("1.1.0", "1.1.0"), ("1.01.2", "1.1.0")],
)
def test_packages_with_a_version_gate_are_told_a_version_that_they_take(package: str, answer: str) -> None:
    message = pb.UnityMessageProto.FromString(encode_answer(told("1.0.0", package), seed=0))
    assert message.unity_input.rl_initialization_input.package_version == answer


def test_a_first_message_that_introduces_nobody_is_refused() -> None:
    with pytest.raises(PlayerProtocolError, match="does not introduce it"):
        introduction(output_message(), PLACE)
