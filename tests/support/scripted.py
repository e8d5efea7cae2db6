"""Policies that play each scene as well as it can be played, written from the scenes' docstrings."""

from runtime.players.wire import communicator_pb2 as pb
from tests.support.driving import Choice, legal_actions, observations


def actions(*, continuous: list[float] | None = None, discrete: list[int] | None = None) -> pb.AgentActionProto:
    return pb.AgentActionProto(continuous_actions=continuous or [], discrete_actions=discrete or [])


def basic(_parameters: pb.BrainParametersProto, _info: pb.AgentInfoProto) -> pb.AgentActionProto:
    return actions(discrete=[2])


def constant(_parameters: pb.BrainParametersProto, _info: pb.AgentInfoProto) -> pb.AgentActionProto:
    return actions(discrete=[1])


def balance(_parameters: pb.BrainParametersProto, info: pb.AgentInfoProto) -> pb.AgentActionProto:
    """Steers each tilt towards one that is proportional to the ball's place and speed on that axis."""
    (seen,) = observations(info)

    def change(tilt: float, place: float, speed: float) -> float:
        wanted = -1.2 * place - 1.0 * speed
        return max(-1.0, min(1.0, (wanted - tilt) * 45.0 / 2.0))

    return actions(continuous=[change(seen[0], seen[2], seen[5]), change(seen[1], seen[4], seen[7])])


def hybrid(_parameters: pb.BrainParametersProto, info: pb.AgentInfoProto) -> pb.AgentActionProto:
    switch, target, colour = observations(info)
    return actions(continuous=list(target), discrete=[list(colour).index(1.0), int(switch[0] == 1.0)])


def masked(parameters: pb.BrainParametersProto, info: pb.AgentInfoProto) -> pb.AgentActionProto:
    (colour,) = observations(info)
    keys, levers = legal_actions(parameters, info)
    return actions(discrete=[next(key for key in keys if key // 70 == list(colour).index(1.0)), max(levers)])


def crowd(parameters: pb.BrainParametersProto, info: pb.AgentInfoProto) -> pb.AgentActionProto:
    gate = observations(info)[0][0]
    if parameters.brain_name == "CrowdLate":
        return actions(continuous=[gate])
    return actions(discrete=[2 if gate > 0 else 1])


BEST: dict[str, Choice] = {
    "basic": basic,
    "balance": balance,
    "constant": constant,
    "hybrid": hybrid,
    "masked": masked,
    "crowd": crowd,
}
