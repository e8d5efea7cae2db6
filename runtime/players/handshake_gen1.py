"""The first exchange with players of API-8 to API-10: what they announce, all at once, and our answer.

They tell their version and every brain in the first message, and never learn ours.
"""

from __future__ import annotations

import math

from runtime.errors import VersionMismatchError
from runtime.experience.brains import ActionSpec, BrainName, BrainParameters, ObservationSpec
from runtime.players.announcements import OBSERVATION_FLOATS_MAX, require_possible
from runtime.players.places import Place
from runtime.players.versions import GEN1_VERSIONS, WE_SPEAK
from runtime.players.wire import communicator_gen1_pb2 as pb

BRAINS_MAX = 1000
_IMAGE_PROPERTIES = (1, 2, 2)


def introduction(message: pb.UnityMessage, place: Place) -> pb.UnityRLInitializationOutput:
    """How the player introduced itself in its first message. Raises PlayerProtocolError for any other message."""
    output = message.unity_output
    if not output.HasField("rl_initialization_output"):
        raise place.protocol_error(
            "the player's first message does not introduce it; expected rl_initialization_output."
        )
    return output.rl_initialization_output


def require_version(told: pb.UnityRLInitializationOutput, place: Place) -> None:
    """Nothing, for API-8, API-9 and API-10; else raises VersionMismatchError with both versions and a way out."""
    if told.version not in GEN1_VERSIONS:
        raise VersionMismatchError(
            f"{place.environment}: the player calls the service of ML-Agents 0.10 and older and speaks "
            f"{told.version!r}; this trainer speaks {WE_SPEAK}. "
            "Rebuild the player with ML-Agents 0.8 or newer, best with com.unity.ml-agents 1.0.0 (Release 1) or newer.",
            env_id=place.env_id,
            incarnation=place.incarnation,
        )


def encode_answer(*, seed: int) -> bytes:
    """Our side of the introduction. seed: int32, for the player's random state."""
    answer = pb.UnityRLInitializationInput(seed=seed)
    unity_input = pb.UnityInput(rl_initialization_input=answer)
    return pb.UnityMessage(header=pb.Header(status=200), unity_input=unity_input).SerializeToString()


def announced_brains(
    told: pb.UnityRLInitializationOutput, place: Place
) -> tuple[tuple[BrainParameters, ...], tuple[BrainParameters, ...]]:
    """The brains that we control, and those that the player controls and only shows.

    A brain's vectors, with all stacked frames, come first, then one image per camera. Raises PlayerProtocolError for
    sizes that cannot be, a brain without a name, and a name that comes twice.
    """
    if len(told.brain_parameters) > BRAINS_MAX:
        raise place.protocol_error(f"more than {BRAINS_MAX} brains; players announce a handful.")
    ours: dict[str, BrainParameters] = {}
    theirs: dict[str, BrainParameters] = {}
    for proto in told.brain_parameters:
        if not proto.brain_name:
            raise place.protocol_error("brain parameters without a name; expected one, such as `3DBallLearning`.")
        if proto.brain_name in ours or proto.brain_name in theirs:
            raise place.protocol_error(f"brain {proto.brain_name!r} is announced twice; names must differ.")
        (ours if proto.is_training else theirs)[proto.brain_name] = brain_of(proto, place)
    return tuple(ours.values()), tuple(theirs.values())


def brain_of(proto: pb.BrainParametersProto, place: Place) -> BrainParameters:
    """The brain that a player or a demonstration announces. Raises PlayerProtocolError for impossible sizes."""
    frames, size = proto.num_stacked_vector_observations, proto.vector_observation_size
    sides = [side for camera in proto.camera_resolutions for side in (camera.height, camera.width)]
    if min(frames, size, *sides, 0) < 0 or 0 in sides:
        raise place.protocol_error(
            f"brain {proto.brain_name!r} announces impossible observations: {size} numbers in {frames} frames, "
            f"cameras of {[(each.width, each.height) for each in proto.camera_resolutions]} pixels."
        )
    specs = []
    if size:
        specs.append(ObservationSpec((size * max(1, frames),), (1,), 0, "vector_observation"))
    for index, camera in enumerate(proto.camera_resolutions):
        shape = (1 if camera.gray_scale else 3, camera.height, camera.width)
        specs.append(ObservationSpec(shape, _IMAGE_PROPERTIES, 0, f"visual_observation_{index}", "uint8"))
    if sum(math.prod(spec.shape) for spec in specs) > OBSERVATION_FLOATS_MAX:
        raise place.protocol_error(
            f"brain {proto.brain_name!r} announces observations of {[spec.shape for spec in specs]}; "
            f"at most {OBSERVATION_FLOATS_MAX} numbers are taken."
        )
    if proto.vector_action_space_type == pb.SpaceTypeProto.continuous:
        actions = ActionSpec(next(iter(proto.vector_action_size), 0), ())
    else:
        actions = ActionSpec(0, tuple(proto.vector_action_size))
    require_possible(proto.brain_name, actions, place)
    return BrainParameters(BrainName(proto.brain_name), tuple(specs), actions, shows_ends=False)
