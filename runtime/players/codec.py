"""A player's UnityMessageProto -> experience, for communicator 1.x: pure functions of a message and what is known.

If a message is refused, nothing has changed: `Known` is a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from google.protobuf.message import DecodeError

from runtime.experience.brains import ActionSpec, BrainInfo, BrainParameters, EnvId
from runtime.players.announcements import action_spec, brain_parameters, require_same
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
    specs come with their first agent.
    """

    readers: Mapping[str, RowReader] = field(default_factory=dict)
    announced: Mapping[str, ActionSpec] = field(default_factory=dict)

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


def decode_reply(message: pb.UnityMessageProto, known: Known, place: Place) -> tuple[PlayerReply, Known]:
    """The rows of every known brain, new ones included, and what is known afterwards.

    Raises PlayerContentError or PlayerProtocolError, which name brain, agent, field, index and step.
    """
    output = message.unity_output
    infos = output.rl_output.agentInfos
    news: tuple[BrainParameters, ...] = ()
    announced = output.rl_initialization_output.brain_parameters
    if announced or known.announced:
        known, news = _learn(output, known, place)
    all_infos: dict[str, BrainInfo] = {}
    for name, reader in known.readers.items():
        agents = infos[name].value if name in infos else ()
        all_infos[name] = BrainInfo(*reader.read(agents, place), EnvId(place.env_id))
    for name in infos:
        if name not in known.readers and infos[name].value:
            raise place.protocol_error(
                f"agents of brain {name!r}, which was never announced; expected its brain parameters in this or an "
                f"earlier message. Known: {', '.join(map(repr, known.readers)) or 'none'}."
            )
    return PlayerReply(infos=all_infos, brains=news), known


def _learn(output: pb.UnityOutputProto, known: Known, place: Place) -> tuple[Known, tuple[BrainParameters, ...]]:
    """What is known with the announcements of this message, and the brains that thereby have specs now."""
    infos = output.rl_output.agentInfos
    readers, announced = dict(known.readers), dict(known.announced)
    for proto in output.rl_initialization_output.brain_parameters:
        name = proto.brain_name
        if not name:
            raise place.protocol_error("brain parameters without a name; expected `Name?team=N`.")
        announced[name] = action_spec(proto, place)
    if len(readers) + len(announced) > BRAINS_MAX:
        raise place.protocol_error(f"more than {BRAINS_MAX} brains; players announce a handful.")
    news = []
    for name in sorted(announced):
        agents = infos[name].value if name in infos else ()
        actions = announced[name]
        if name in readers:
            old = readers[name].brain
            seen = brain_parameters(name, actions, agents[0].observations, place) if agents else old
            require_same(old, replace(seen, action_spec=actions), place)
            del announced[name]
        elif agents:
            brain = brain_parameters(name, actions, agents[0].observations, place)
            readers[name] = RowReader.of(brain)
            news.append(brain)
            del announced[name]
    return Known(readers, announced), tuple(news)
