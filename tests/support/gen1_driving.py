"""Drives a player of the old generation from the trainer's side with protobuf objects and plain loops."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from runtime.players.wire import communicator_gen1_pb2 as pb
from tests.peers.old_play import decision
from tests.support.driving import Count, Exchanges

Choice = Callable[[pb.BrainParametersProto, pb.AgentInfoProto], pb.AgentActionProto]


def message(status: int = 200) -> pb.UnityMessage:
    return pb.UnityMessage(header=pb.Header(status=status))


def handshake(seed: int = 0) -> bytes:
    answer = message()
    answer.unity_input.rl_initialization_input.seed = seed
    return answer.SerializeToString()


def reset(parameters: Mapping[str, float] | None = None, *, train_mode: bool = True) -> bytes:
    answer = message()
    sent = answer.unity_input.rl_input
    sent.command = pb.RESET
    sent.is_training = train_mode
    sent.environment_parameters.float_parameters.update(parameters or {})
    return answer.SerializeToString()


def step(actions: Mapping[str, list[pb.AgentActionProto]]) -> bytes:
    answer = message()
    answer.unity_input.rl_input.command = pb.STEP
    for name, rows in actions.items():
        answer.unity_input.rl_input.agent_actions[name].value.extend(rows)
    return answer.SerializeToString()


def acts(brain: pb.BrainParametersProto, info: pb.AgentInfoProto) -> pb.AgentActionProto:
    """Legal actions that depend on the vector and the mask alone."""
    sizes = list(brain.vector_action_size)
    is_continuous = brain.vector_action_space_type == pb.continuous
    allowed = [not masked for masked in info.action_mask]
    vector = list(info.stacked_vector_observation)
    chosen = decision(vector, allowed, sizes[0] if is_continuous else 0, () if is_continuous else sizes)
    return pb.AgentActionProto(vector_actions=chosen)


@dataclass
class Gen1Driver:
    """One conversation with a player. `outputs` holds what each call said, `returns` the finished episodes' returns.

    An agent whose row is done had its outcome; unless it is gone it begins anew in the same row.
    """

    player: Exchanges
    choose: Choice
    seed: int = 0
    brains: dict[str, pb.BrainParametersProto] = field(default_factory=dict)
    defaults: dict[str, float] = field(default_factory=dict)
    calls: list[bytes] = field(default_factory=list)
    outputs: list[pb.UnityRLOutput] = field(default_factory=list)
    count: Count = field(default_factory=Count)
    returns: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    lengths: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    endings: dict[str, list[bool]] = field(default_factory=lambda: defaultdict(list))
    _return: dict[tuple[str, int], float] = field(default_factory=lambda: defaultdict(float))
    _length: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))

    def start(self, parameters: Mapping[str, float] | None = None) -> None:
        """Handshake and first reset."""
        hello = self._next(None).unity_output.rl_initialization_output
        self.brains = {brain.brain_name: brain for brain in hello.brain_parameters}
        self.defaults = dict(hello.environment_parameters.float_parameters)
        self._next(handshake(self.seed))
        self.reset(parameters)

    def reset(self, parameters: Mapping[str, float] | None = None) -> None:
        """One RESET."""
        self._return.clear()
        self._length.clear()
        self._take(self._next(reset(parameters)))

    def step(self) -> pb.UnityRLOutput:
        """One STEP with an action for everybody who was listed; what the player says then."""
        actions = {
            name: [self.choose(self.brains[name], info) for info in infos.value]
            for name, infos in self.latest.agentInfos.items()
            if self.brains[name].is_training and infos.value
        }
        self._take(self._next(step(actions)))
        self.count.env_steps += 1
        return self.latest

    def steps(self, count: int) -> None:
        """That many STEPs."""
        for _ in range(count):
            self.step()

    @property
    def latest(self) -> pb.UnityRLOutput:
        """What the last call said."""
        return self.outputs[-1]

    def infos(self, name: str) -> list[pb.AgentInfoProto]:
        """The agents of a brain, as listed last."""
        return list(self.latest.agentInfos[name].value)

    def close(self) -> bytes | None:
        """Says goodbye; what the player answers."""
        return self.player.exchange(message(400).SerializeToString())

    def _next(self, reply: bytes | None) -> pb.UnityMessage:
        call = self.player.exchange(reply)
        assert call is not None, "the player ended"
        self.calls.append(call)
        return pb.UnityMessage.FromString(call)

    def _take(self, answer: pb.UnityMessage) -> None:
        output = answer.unity_output.rl_output
        assert set(output.agentInfos) == set(self.brains), "every brain is in every output"
        self.outputs.append(output)
        for name, infos in output.agentInfos.items():
            ids = [info.id for info in infos.value]
            assert len(ids) == len(set(ids)), "an agent is listed twice"
            for info in infos.value:
                agent = (name, info.id)
                self._return[agent] += info.reward
                self._length[agent] += 1
                if info.done:
                    self.count.episodes += 1
                    self.returns[name].append(self._return.pop(agent))
                    # The row with the episode's first observation was counted too, unless the end before brought it.
                    self.lengths[name].append(self._length.pop(agent))
                    self.endings[name].append(info.max_step_reached)
