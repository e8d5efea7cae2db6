"""The first exchange with players of communicator 1.x: who speaks which version, and the answer to an introduction.

They are accepted whatever the minor version: fields were only ever added. Those between ML-Agents 0.11 and 0.15 used
the same service under other rules and are refused by name; older ones are another generation (`handshake_gen1`).
"""

from __future__ import annotations

import re

from runtime.errors import VersionMismatchError
from runtime.players.links import PlayerHello
from runtime.players.places import Place
from runtime.players.versions import COMMUNICATION_VERSION, EXCHANGE_PATH, GEN1_VERSIONS, WE_SPEAK
from runtime.players.wire import communicator_pb2 as pb

PACKAGE_VERSION = "1.1.0"
OLD_PACKAGE_VERSION = "0.16.1"
_FIRST_SUPPORTED = "com.unity.ml-agents 1.0.0 (Release 1)"
_NAMED = {
    "API-11": "ML-Agents 0.11",
    "API-12": "ML-Agents 0.12",
    "API-13": "ML-Agents 0.13",
    "API-14": "ML-Agents 0.14",
    "0.15.0": "ML-Agents 0.15",
}


def introduction(message: pb.UnityMessageProto, place: Place) -> pb.UnityRLInitializationOutputProto:
    """How the player introduced itself in its first message. Raises PlayerProtocolError for any other message."""
    output = message.unity_output
    if not output.HasField("rl_initialization_output"):
        raise place.protocol_error(
            "the player's first message does not introduce it; expected rl_initialization_output."
        )
    return output.rl_initialization_output


def require_version(told: pb.UnityRLInitializationOutputProto, place: Place) -> None:
    """Nothing, for communicator 1.x; else raises VersionMismatchError that names both versions and a way out."""
    theirs = told.communication_version
    match = re.fullmatch(r"(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?", theirs)
    if match and int(match[1]) == 1:
        return
    package = f", package {told.package_version!r}" if told.package_version else ""
    if theirs in _NAMED or (match and int(match[1]) == 0):
        who = _NAMED.get(theirs, "a release before 1.0")
        cure = f"That is {who}, which is not supported; rebuild the player with {_FIRST_SUPPORTED} or newer."
    elif match:
        cure = "The player is newer than this trainer; use a trainer that speaks its version."
    elif theirs in GEN1_VERSIONS:
        cure = f"Players of that version call another service than {EXCHANGE_PATH}; check how this one was built."
    else:
        cure = "That is no version of the communicator; check that the player was built with com.unity.ml-agents."
    raise VersionMismatchError(
        f"{place.environment}: the player speaks communicator {theirs!r}{package}, "
        f"this trainer speaks {WE_SPEAK}. {cure}",
        env_id=place.env_id,
        incarnation=place.incarnation,
    )


def accepted_package_version(theirs: str) -> str:
    """The package version that a player of this package version accepts.

    Builds of com.unity.ml-agents 1.0.x compare it with a fixed range and silently run without a trainer above it.
    """
    return OLD_PACKAGE_VERSION if re.match(r"1\.0(\.|-|$)", theirs) else PACKAGE_VERSION


def encode_answer(told: pb.UnityRLInitializationOutputProto, *, seed: int, num_areas: int = 1) -> bytes:
    """Our side of the introduction. seed: int32, for the player's random state; num_areas: training areas to build."""
    answer = pb.UnityRLInitializationInputProto(
        seed=seed,
        communication_version=COMMUNICATION_VERSION,
        package_version=accepted_package_version(told.package_version),
        num_areas=num_areas,
        capabilities=pb.UnityRLCapabilitiesProto(
            baseRLCapabilities=True,
            concatenatedPngObservations=True,
            compressedChannelMapping=True,
            hybridActions=True,
            variableLengthObservation=True,
            multiAgentGroups=True,
        ),
    )
    message = pb.UnityMessageProto(
        header=pb.HeaderProto(status=200), unity_input=pb.UnityInputProto(rl_initialization_input=answer)
    )
    return message.SerializeToString()


def hello(told: pb.UnityRLInitializationOutputProto, *, pid: int) -> PlayerHello:
    """What the EnvWorker is told about a player that introduced itself."""
    return PlayerHello(
        pid=pid, protocol=told.communication_version, package_version=told.package_version, academy=told.name
    )
