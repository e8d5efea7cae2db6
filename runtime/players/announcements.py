"""What a player announces about its brains: `BrainParametersProto` and a first agent -> `BrainParameters`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from runtime.experience.brains import ActionSpec, BrainName, BrainParameters, ObservationSpec
from runtime.players.images import channels_first, is_channels_last
from runtime.players.places import Place
from runtime.players.wire import communicator_pb2 as pb

OBSERVATION_FLOATS_MAX = 1 << 26
ACTION_SIZE_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class WireObservation:
    """One observation as it is sent. shape: on the wire. is_channels_last: an image (height, width, channels)."""

    spec: ObservationSpec
    shape: tuple[int, ...]
    is_channels_last: bool = False


def action_spec(proto: pb.BrainParametersProto, place: Place) -> ActionSpec:
    """The action sizes of a brain, from `action_spec` or, when that says nothing, from the deprecated fields.

    Raises PlayerProtocolError for sizes that cannot be.
    """
    sizes = proto.action_spec
    if sizes.num_continuous_actions or sizes.num_discrete_actions:
        if sizes.num_discrete_actions != len(sizes.discrete_branch_sizes):
            raise place.protocol_error(
                f"brain {proto.brain_name!r} announces {sizes.num_discrete_actions} discrete branches and "
                f"{len(sizes.discrete_branch_sizes)} branch sizes; expected one size per branch."
            )
        spec = ActionSpec(sizes.num_continuous_actions, tuple(sizes.discrete_branch_sizes))
    elif proto.vector_action_space_type_deprecated == pb.SpaceTypeProto.continuous:
        spec = ActionSpec(next(iter(proto.vector_action_size_deprecated), 0), ())
    else:
        spec = ActionSpec(0, tuple(proto.vector_action_size_deprecated))
    require_possible(proto.brain_name, spec, place)
    return spec


def require_possible(name: str, spec: ActionSpec, place: Place) -> None:
    """Nothing, for action sizes that can be; else raises PlayerProtocolError."""
    if spec.continuous_size < 0 or any(branch < 1 for branch in spec.discrete_branches):
        raise place.protocol_error(f"brain {name!r} announces impossible action sizes: {spec!r}.")
    if spec.continuous_size + spec.mask_size > ACTION_SIZE_MAX:
        raise place.protocol_error(
            f"brain {name!r} announces {spec.continuous_size + spec.mask_size} action numbers; "
            f"at most {ACTION_SIZE_MAX} are taken."
        )


def wire_observations(
    name: str, observations: Iterable[pb.ObservationProto], place: Place, package_version: str = ""
) -> tuple[WireObservation, ...]:
    """A brain's observations, as its first agent sends them. Raises PlayerProtocolError for impossible shapes.

    package_version: of the player; one of the signs that tell the order of an image's dimensions.
    """
    return tuple(
        _wire_observation(name, index, each, place, package_version=package_version)
        for index, each in enumerate(observations)
    )


def brain_parameters(name: str, actions: ActionSpec, observations: Iterable[WireObservation]) -> BrainParameters:
    """A brain with these observations, images with their channels first."""
    return BrainParameters(BrainName(name), tuple(each.spec for each in observations), actions)


def require_same(known: BrainParameters, again: BrainParameters, place: Place) -> None:
    """Nothing, when a brain that is announced again has kept its shapes; else raises PlayerProtocolError."""
    old, new = ([spec.shape for spec in each.observation_specs] for each in (known, again))
    if old != new or known.action_spec != again.action_spec:
        raise place.protocol_error(
            f"brain {known.brain_name!r} is redefined: it had observations {old} and {known.action_spec!r}, "
            f"now {new} and {again.action_spec!r}. A brain keeps its shapes for the life of a run."
        )


def _wire_observation(
    brain: str, index: int, proto: pb.ObservationProto, place: Place, *, package_version: str
) -> WireObservation:
    shape = tuple(proto.shape)
    if not 1 <= len(shape) <= 3 or any(size < 1 for size in shape):
        raise place.protocol_error(
            f"brain {brain!r} announces observation {index} ({proto.name!r}) of shape {shape}; "
            "expected one to three positive sizes."
        )
    if math.prod(shape) > OBSERVATION_FLOATS_MAX:
        raise place.protocol_error(
            f"brain {brain!r} announces observation {index} ({proto.name!r}) of shape {shape}; "
            f"at most {OBSERVATION_FLOATS_MAX} numbers are taken."
        )
    properties = tuple(proto.dimension_properties)
    if len(properties) != len(shape):
        properties = (0,) * len(shape)
    spec = ObservationSpec(shape, properties, int(proto.observation_type), proto.name)
    if len(shape) != 3:
        return WireObservation(spec, shape)
    is_last = is_channels_last(
        shape, picture=proto.compressed_data[:32], properties=properties, package_version=package_version
    )
    if is_last:
        spec = replace(spec, shape=channels_first(shape), dimension_properties=channels_first(properties))
    if proto.WhichOneof("observation_data") == "compressed_data":
        spec = replace(spec, dtype="uint8")
    return WireObservation(spec, shape, is_last)
