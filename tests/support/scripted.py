"""Policies that play each scene as well as it can be played, written from the scenes' docstrings."""

import io

import numpy as np
from PIL import Image

from runtime.players.wire import communicator_pb2 as pb
from tests.support.driving import Choice, legal_actions, observations

Cell = tuple[int, int]


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


def gridworld(_parameters: pb.BrainParametersProto, info: pb.AgentInfoProto) -> pb.AgentActionProto:
    """Reads the picture: walks to the wanted shape by a shortest way around the other one."""
    camera, goal = info.observations
    field = cells_of(camera.compressed_data)
    wanted, other = ("plus", "cross") if goal.float_data.data[0] == 1.0 else ("cross", "plus")
    return actions(discrete=[first_move(field["agent"], field[wanted], field[other])])


def first_move(start: Cell, goal: Cell, avoid: Cell) -> int:
    """The first of the moves (1 up, 2 down, 3 left, 4 right) of a shortest way on 5 by 5 cells."""
    moves = {1: (-1, 0), 2: (1, 0), 3: (0, -1), 4: (0, 1)}
    distance, queue = {goal: 0}, [goal]
    for row, column in queue:
        for down, right in moves.values():
            cell = row + down, column + right
            if cell not in distance and cell != avoid and 0 <= cell[0] < 5 and 0 <= cell[1] < 5:
                distance[cell] = distance[row, column] + 1
                queue.append(cell)
    return min(moves, key=lambda move: distance.get((start[0] + moves[move][0], start[1] + moves[move][1]), 99))


def cells_of(picture: bytes) -> dict[str, Cell]:
    """Row and column of agent (blue), plus (green) and cross (red) in a picture of gridworld."""
    pixels = np.asarray(Image.open(io.BytesIO(picture))).astype(int)
    found = {}
    for name, channel in (("cross", 0), ("plus", 1), ("agent", 2)):
        others = [other for other in range(3) if other != channel]
        strong = (pixels[:, :, channel] > pixels[:, :, others].max(axis=2) + 50).nonzero()
        found[name] = (int(strong[0].mean() * 5 / 84), int(strong[1].mean() * 5 / 84))
    return found


def hallway() -> Choice:
    """Remembers the sign of each agent."""
    signs: dict[int, int] = {}

    def choose(_parameters: pb.BrainParametersProto, info: pb.AgentInfoProto) -> pb.AgentActionProto:
        seen = list(observations(info)[0])
        if any(seen[6:]):
            signs[info.id] = seen[6:].index(1.0)
        return actions(discrete=[2 + signs[info.id] if seen[5] else 1])

    return choose


def walljump(_parameters: pb.BrainParametersProto, info: pb.AgentInfoProto) -> pb.AgentActionProto:
    """Faces ahead, takes the middle lane, and a run-up as long as the wall is high."""
    seen = list(observations(info)[0])
    cell, lane, facing = seen[:12].index(1.0), seen[12:15].index(1.0), seen[15:18].index(1.0)
    speed, height = round(seen[18] * 4), seen[19] * 4
    turn, side = (2 if facing == 0 else 1 if facing == 2 else 0), (2 if lane == 0 else 1 if lane == 2 else 0)
    is_fast_enough = cell > 7 or speed + (7 - cell) >= height
    return actions(discrete=[1 if is_fast_enough else 2, turn, side, int(cell == 7)])


def pushblock_group(_parameters: pb.BrainParametersProto, _info: pb.AgentInfoProto) -> pb.AgentActionProto:
    """Goes to the block, and pushes without waiting: who pushes alone stays where it is."""
    return actions(discrete=[2])


def soccer(parameters: pb.BrainParametersProto, info: pb.AgentInfoProto) -> pb.AgentActionProto:
    """Team 0 fetches the ball and carries it into the goal, around the other player; team 1 stands still."""
    if parameters.brain_name.endswith("1"):
        return actions(discrete=[0])
    seen = list(observations(info)[0])
    (row, column), (other_row, other_column) = divmod(seen[:24].index(1.0), 6), divmod(seen[24:48].index(1.0), 6)
    if not seen[48]:
        if row != other_row:
            return actions(discrete=[1 if other_row < row else 2])
        return actions(discrete=[4 if other_column > column else 3])
    if (row, column + 1) == (other_row, other_column):
        return actions(discrete=[1 if row > 1 else 2])
    if column == 5 and row not in {1, 2}:
        return actions(discrete=[2 if row == 0 else 1])
    return actions(discrete=[4])


def buffer(_parameters: pb.BrainParametersProto, info: pb.AgentInfoProto) -> pb.AgentActionProto:
    stones = list(observations(info)[0])
    return actions(discrete=[int(sum(p * w for p, w in zip(stones[::2], stones[1::2], strict=True)) > 0)])


def teacher(_parameters: pb.BrainParametersProto, info: pb.AgentInfoProto) -> pb.AgentActionProto:
    """What the student should do; for the teacher it is of no consequence."""
    return actions(discrete=[[2, 0, 3, 1][list(observations(info)[0])[:4].index(1.0)]])


def vault(_parameters: pb.BrainParametersProto, info: pb.AgentInfoProto) -> pb.AgentActionProto:
    """Lever, key, chest, each by a shortest way, through the door in row 2."""
    seen = list(observations(info)[0])
    row, column, has_lever, has_key = seen[:5].index(1.0), seen[5:20].index(1.0), seen[20], seen[21]
    goal = (0, 14) if has_key else (4, 9) if has_lever else (0, 0)
    if column // 5 != goal[1] // 5:
        goal = (2, column + 1) if row == 2 else (2, column)
    if row != goal[0]:
        return actions(discrete=[1 if row > goal[0] else 2])
    return actions(discrete=[3 if column > goal[1] else 4])


def best(scene: str) -> Choice:
    """A new policy that plays `scene` as well as it can be played."""
    return hallway() if scene == "hallway" else BEST[scene]


BEST: dict[str, Choice] = {
    "basic": basic,
    "balance": balance,
    "constant": constant,
    "hybrid": hybrid,
    "masked": masked,
    "crowd": crowd,
    "gridworld": gridworld,
    "walljump": walljump,
    "pushblock_group": pushblock_group,
    "soccer": soccer,
    "buffer": buffer,
    "teacher": teacher,
    "vault": vault,
}
