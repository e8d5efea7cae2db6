"""The protocol from communicator 1.0.0 on: sensors, side channels, behaviors that appear when they like."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from google.protobuf.message import DecodeError

from fakeunity import side_channels, wire
from fakeunity.dialect import ActionLists, Command, Order
from fakeunity.errors import TrainerMistakeError
from fakeunity.formats import Format
from fakeunity.orders import LikeOrders
from fakeunity.protocols import NEWEST, PROTOCOLS, Protocol
from fakeunity.row_writer import RowWriter
from fakeunity.rows import Actions, BehaviorSpec, Rows, World
from fakeunity.side_channels import Sampler
from fakeunity.stacking import Stacking, stacked_spec
from runtime.players.wire import communicator_pb2 as pb

# Packages of the verified line (1.0.5 and later patches) turn away trainers whose package is newer than this.
VERIFIED_PACKAGE = re.compile(r"1\.0\.([5-9]|\d{2,})(-.*)?")
TRAINER_PACKAGE_MAX = (0, 25, 999)
COMMANDS: Mapping[int, Command] = {pb.STEP: "STEP", pb.RESET: "RESET", pb.QUIT: "QUIT"}


class Gen2Dialect:
    """Speaks `protocol` (1.x) as the Unity package `package` does, pictures with their channels first or last."""

    exchange_path = wire.EXCHANGE_PATH

    def __init__(
        self,
        protocol: Protocol = PROTOCOLS[NEWEST],
        *,
        package: str | None = None,
        channels_first: bool = True,
        frames: int = 1,
    ) -> None:
        self._protocol = protocol
        self._package = package or protocol.package
        self._channels_first = channels_first
        self._frames = frames
        self._format = Format(protocol, channels_first)
        self._like = LikeOrders()
        self._specs: dict[str, BehaviorSpec] = {}
        self._told: dict[str, tuple[RowWriter, Stacking]] = {}

    def hello(self, world: World) -> bytes:
        """Who we are; the behaviors appear when they have agents."""
        return wire.hello_bytes(self._protocol, self._package)

    def play(self, world: World) -> None:
        """See `Dialect.play`."""
        self._specs = {spec.name: spec for spec in world.specs}

    def read(self, message: bytes, *, is_greeting: bool) -> Order:
        """See `Dialect.read`."""
        told = None if is_greeting else self._like.read(message)
        if told is not None:
            return Order("STEP", actions=told)
        try:
            parsed = pb.UnityMessageProto.FromString(message)
        except DecodeError as error:
            raise TrainerMistakeError(f"{len(message)} bytes arrived that are no UnityMessageProto: {error}") from error
        received = parsed.unity_input.rl_input
        command = COMMANDS.get(received.command)
        if parsed.header.status != wire.STATUS_OK or command == "QUIT":
            return Order("QUIT", is_asked=parsed.header.status == wire.STATUS_OK)
        if command is None:
            raise TrainerMistakeError(f"command {received.command} arrived, expected STEP 0, RESET 1 or QUIT 2")
        if is_greeting:
            return self._meet(parsed)
        if command == "STEP" and self._format.has_action_spec and not received.side_channel:
            self._like.learn(message, parsed)
        actions = {name: actions.value for name, actions in received.agent_actions.items()}
        return Order(command, parameters=_parameters(received.side_channel), actions=actions)

    def action_lists(
        self, spec: BehaviorSpec, rows: Rows, received: Sequence[pb.AgentActionProto] | ActionLists
    ) -> ActionLists:
        """See `Dialect.action_lists`; trainers that know nothing newer send all actions in one list."""
        if isinstance(received, ActionLists):
            lists = received
        elif self._format.has_action_spec:
            lists = ActionLists(
                [row.continuous_actions for row in received], [row.discrete_actions for row in received]
            )
        else:
            lists = in_one_list(spec, [row.vector_actions_deprecated for row in received])
        waiting = rows.waiting_count()
        if len(received) != waiting:
            raise TrainerMistakeError(
                f"behavior {spec.name!r}: {len(received)} action rows arrived for {waiting} waiting agents; "
                "send one row per agent that is not done, in the order of the last message"
            )
        return lists

    def applied(self, spec: BehaviorSpec, rows: Rows, actions: Actions) -> None:
        """Nothing: a trainer of this generation remembers by itself what it did."""

    def tell(self, rows: Mapping[str, Rows], *, is_reset: bool, is_over: bool) -> bytes:
        """See `Dialect.tell`; a behavior is announced together with its first agents. An academy has no end here."""
        new = [stacked_spec(self._specs[name], self._frames) for name in rows if name not in self._told]
        written = {}
        for name, sent in rows.items():
            writer, stacking = self._told.get(name) or self._told.setdefault(name, self._open(name))
            if is_reset:
                stacking.clear()
            written[name] = writer.write(stacking.stack(sent))
        return wire.output_bytes(written, new, self._format)

    def _open(self, name: str) -> tuple[RowWriter, Stacking]:
        spec = self._specs[name]
        return RowWriter(stacked_spec(spec, self._frames), self._format), Stacking(spec, self._frames)

    def _meet(self, parsed: pb.UnityMessageProto) -> Order:
        if not parsed.unity_input.HasField("rl_initialization_input"):
            raise TrainerMistakeError("the first reply has no rl_initialization_input, with its seed and versions")
        trainer = parsed.unity_input.rl_initialization_input
        ours, theirs = self._protocol.version, trainer.communication_version
        if theirs.partition(".")[0] != ours.partition(".")[0]:
            raise TrainerMistakeError(f"the trainer speaks communicator {theirs!r}, this player {ours!r}")
        if VERIFIED_PACKAGE.fullmatch(self._package) and _numbers(trainer.package_version) > TRAINER_PACKAGE_MAX:
            raise TrainerMistakeError(
                f"the trainer is of package {trainer.package_version!r}, and Unity's package {self._package} turns "
                f"away any above {'.'.join(map(str, TRAINER_PACKAGE_MAX))}; tell it an older one, as 0.16.1"
            )
        shared = frozenset(name for name in self._protocol.capabilities() if getattr(trainer.capabilities, name))
        self._format = Format(self._protocol, self._channels_first, shared)
        return Order("RESET", seed=trainer.seed)


def in_one_list(spec: BehaviorSpec, rows: Sequence[Sequence[float]]) -> ActionLists:
    """The actions of a behavior of one kind, which came as one list of numbers per agent."""
    none: list[Sequence[float]] = [() for _ in rows]
    return ActionLists(rows, none) if spec.continuous else ActionLists(none, rows)


def _parameters(container: bytes) -> tuple[tuple[str, float | Sampler], ...]:
    if not container:
        return ()
    return tuple(
        side_channels.environment_parameter(payload)
        for channel, payload in side_channels.messages(container)
        if channel == side_channels.ENVIRONMENT_PARAMETERS
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version.partition("-")[0])[:3])
