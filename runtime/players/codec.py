"""A player's UnityMessageProto -> experience, for communicator 1.x: pure functions of a message and what is known.

If a message is refused, nothing has changed: `Known` is a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from google.protobuf.message import DecodeError

from runtime.experience.brains import ActionSpec, BrainInfo, BrainParameters, EnvId, ObservationSpec
from runtime.players.announcements import (
    WireObservation,
    action_spec,
    brain_parameters,
    require_same,
    wire_observations,
)
from runtime.players.guards import Guard
from runtime.players.links import PlayerReply
from runtime.players.places import Place
from runtime.players.rows import RowReader
from runtime.players.wire import communicator_pb2 as pb

STATUS_OK = 200
BRAINS_MAX = 1000


@dataclass(frozen=True, slots=True)
class Known:
    """What a player has told about its brains so far.

    readers: brains with specs, by wire name. announced: brains that were announced without agents; their observation
    specs come with their first agent. watched: names of brains that the player controls by itself (`is_training` false;
    builds of Unity announce none of those). tells_control: it has said `is_training` of a brain. package_version: of
    the player; a sign of how its images are laid out.
    """

    readers: Mapping[str, RowReader] = field(default_factory=dict)
    announced: Mapping[str, ActionSpec] = field(default_factory=dict)
    watched: frozenset[str] = frozenset()
    tells_control: bool = False
    package_version: str = ""

    @property
    def brains(self) -> Mapping[str, BrainParameters]:
        """The brains with specs, by wire name."""
        return {name: reader.brain for name, reader in self.readers.items()}


def parse_message(body: bytes, place: Place) -> pb.UnityMessageProto:
    """The message in `body`. Raises PlayerProtocolError for bytes that are none."""
    try:
        return pb.UnityMessageProto.FromString(body)
    except DecodeError as error:
        raise place.protocol_error(
            f"the player sent {len(body)} bytes that are no UnityMessageProto ({error}); expected communicator 1.x."
        ) from error


def decode_reply(
    message: pb.UnityMessageProto, known: Known, guard: Guard, *, plays_all: bool = False
) -> tuple[PlayerReply, Known]:
    """The rows of every known brain, new ones included, and what is known afterwards.

    plays_all: brains that the player controls by itself are taken for ours. Raises PlayerContentError or
    PlayerProtocolError, which name brain, agent, field, index and step.
    """
    place = guard.place
    output = message.unity_output
    infos = output.rl_output.agentInfos
    news: tuple[BrainParameters, ...] = ()
    watched_before = known.watched
    announced = output.rl_initialization_output.brain_parameters
    if announced or known.announced:
        if not plays_all:
            known = _with_watched(known, announced)
        known, news = _learn(output, known, place)
    all_infos: dict[str, BrainInfo] = {}
    for name, reader in known.readers.items():
        agents = infos[name].value if name in infos else ()
        all_infos[name] = BrainInfo(*reader.read(agents, guard), EnvId(place.env_id))
    for name in infos:
        if name not in known.readers and name not in known.watched and infos[name].value:
            raise place.protocol_error(
                f"agents of brain {name!r}, which was never announced; expected its brain parameters in this or an "
                f"earlier message. Known: {', '.join(map(repr, known.readers)) or 'none'}."
            )
    reply = PlayerReply(
        infos=all_infos,
        brains=news,
        new_watched=tuple(sorted(known.watched - watched_before)),
        replaced_numbers=guard.replaced,
        replaced_first=guard.first,
    )
    return reply, known


def _with_watched(known: Known, announced: Iterable[pb.BrainParametersProto]) -> Known:
    """With the brains of these that the player controls; one that was ours before stays ours.

    On the wire false cannot be told from unset, and the released clients never look: it means something only from a
    player that has said true of another brain.
    """
    tells = known.tells_control or any(each.is_training for each in announced)
    if not tells:
        return known
    ours = known.readers.keys() | known.announced.keys()
    names = {each.brain_name for each in announced if not each.is_training and each.brain_name not in ours}
    return replace(known, watched=known.watched | names, tells_control=True)


def _learn(output: pb.UnityOutputProto, known: Known, place: Place) -> tuple[Known, tuple[BrainParameters, ...]]:
    """What is known with the announcements of this message, and the brains that thereby have specs now."""
    infos = output.rl_output.agentInfos
    readers, announced = dict(known.readers), dict(known.announced)
    for proto in output.rl_initialization_output.brain_parameters:
        name = proto.brain_name
        if not name:
            raise place.protocol_error("brain parameters without a name; expected `Name?team=N`.")
        if name not in known.watched:
            announced[name] = action_spec(proto, place)
    if len(readers) + len(announced) + len(known.watched) > BRAINS_MAX:
        raise place.protocol_error(f"more than {BRAINS_MAX} brains; players announce a handful.")
    news = []
    for name in sorted(announced):
        agents = infos[name].value if name in infos else ()
        if name not in readers and not agents:
            continue
        actions = announced.pop(name)
        wire = wire_observations(name, agents[0].observations, place, known.package_version) if agents else ()
        if name in readers:
            _require_same(readers[name], wire if agents else readers[name].wire, actions, place)
            continue
        brain = brain_parameters(name, actions, wire)
        readers[name] = RowReader.of(brain, wire)
        news.append(brain)
    return replace(known, readers=readers, announced=announced), tuple(news)


def _require_same(reader: RowReader, wire: tuple[WireObservation, ...], actions: ActionSpec, place: Place) -> None:
    """Compares what is on the wire: whether an image is compressed, or how it is laid out, may look different."""
    shapes = tuple(ObservationSpec(each.shape) for each in reader.wire), tuple(ObservationSpec(e.shape) for e in wire)
    old, new = (replace(reader.brain, observation_specs=each) for each in shapes)
    require_same(old, replace(new, action_spec=actions), place)
