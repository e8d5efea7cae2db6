"""Players whose every row tells where it belongs, and a learner that checks each transition, for real processes.

An observation is (environment, incarnation, agent, episode, t), a reward follows from the observation and the action
before it. World and checks are those of the simulator; here they travel to EnvWorkers and a TrainerController that are
processes, and acting is done by the real replica. Players write down what they counted before they answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from runtime.experience.actions import Actions
from runtime.experience.brains import BrainInfo, BrainParameters, DecisionRows, EnvId, TerminalRows
from runtime.experience.columns import RowKind
from runtime.experience.parameters import ParameterValue
from runtime.learner import LearnerOptions, PolicyRelease, SaveJob, Summary
from runtime.messages import EnvAssignment
from runtime.players.links import LinkLimits, PlayerHello, PlayerReply
from runtime.simulation.learner import SimLearner
from runtime.simulation.players import OBSERVATION_SIZE, Act, Reply, Row, Scene, SimPlayer, brain
from tests.support.graphs import constant_graph

WALKER = "Walker"
SCENE = Scene(agents=3, late_agents=1, brains=(WALKER,))


class PairedPlayer:
    """A link to a simulated player; its journal has a line for each step: env steps, agent steps, decisions.

    lies: it gives other rewards than those that follow.
    """

    def __init__(self, folder: Path, assignment: EnvAssignment, *, lies: bool = False) -> None:
        self._player = SimPlayer(assignment.env_id, assignment.incarnation, assignment.seed, SCENE)
        self._place = assignment
        self._file = folder / f"{assignment.env_id}-{assignment.incarnation}"
        self._asking: list[int] = []
        self._lies = lies
        self.pid = 0

    async def start(self) -> PlayerHello:
        return PlayerHello(pid=0, protocol="paired", brains=self._player.hello())

    async def reset(self, parameters: Mapping[str, ParameterValue], *, train_mode: bool) -> PlayerReply:
        del train_mode
        return self._answer(self._player.reset(self._player.resets, parameters))

    async def step(self, actions: Mapping[str, Actions]) -> PlayerReply:
        choices = actions[WALKER].discrete[:, 0].tolist() if self._asking else []
        acts = [Act(WALKER, agent, choice) for agent, choice in zip(self._asking, choices, strict=True)]
        reply = self._player.step(acts)
        with self._file.open("a") as file:
            file.write(f"{self._player.env_steps} {self._player.journal[-1]} {self._player.decided[-1]}\n")
        return self._answer(reply)

    async def close(self) -> None:
        """Nothing is held."""

    def _answer(self, reply: Reply) -> PlayerReply:
        going = [row for row in reply.rows if row.kind == RowKind.DECISION]
        ends = [row for row in reply.rows if row.kind != RowKind.DECISION]
        self._asking = [row.agent for row in going]
        ids, seen, rewards, groups, shared = _arrays(going)
        decisions = DecisionRows(ids, (seen,), rewards + np.float32(self._lies), None, groups, shared)
        ids, seen, rewards, groups, shared = _arrays(ends)
        interrupted = np.array([row.kind == RowKind.INTERRUPTED for row in ends], np.bool_)
        terminals = TerminalRows(ids, (seen,), rewards, interrupted, groups, shared)
        info = BrainInfo(decisions, terminals, self._place.env_id)
        return PlayerReply(infos={WALKER: info}, brains=reply.brains)


def _arrays(rows: list[Row]) -> tuple[np.ndarray, ...]:
    count = len(rows)
    return (
        np.array([row.agent for row in rows], np.int64),
        np.array([row.observation for row in rows], np.float32).reshape(count, OBSERVATION_SIZE),
        np.array([row.reward for row in rows], np.float32),
        np.zeros(count, np.int32),
        np.zeros(count, np.float32),
    )


@dataclass(frozen=True, slots=True)
class PairedFactory:
    """The recipe of the players. folder: for their journals. lies: as of the player."""

    folder: str
    lies: bool = False
    is_blocking: bool = False

    def open_link(self, assignment: EnvAssignment, limits: LinkLimits) -> PairedPlayer:
        del limits
        return PairedPlayer(Path(self.folder), assignment, lies=self.lies)


@dataclass(frozen=True, slots=True)
class Made:
    """What an update made: how to finish it."""

    behavior: str
    finish: Callable[[], PolicyRelease]


class PairedLearner(SimLearner):
    """The simulator's learner behind the port of the real one; what does not follow ends the run with code 4."""

    def __init__(self, options: LearnerOptions) -> None:
        super().__init__(buffer_size=60, max_steps=options.settings_for(WALKER).max_steps)
        self._graph = constant_graph(brain(WALKER), logits=(0.0, 0.0, 0.0))

    def add_brain(self, brain: BrainParameters) -> PolicyRelease | None:
        release = super().add_brain(brain)
        return None if release is None else replace(release, body=self._graph)

    def warm_up(self, behavior: str) -> None:
        """There is nothing to warm up."""

    def cut_idle(self, env_id: EnvId, steps_max: int) -> int:
        del env_id, steps_max
        return 0

    def take_summaries(self) -> Sequence[Summary]:
        return ()

    def begin_update(self, name: str) -> Callable[[], Made]:  # type: ignore[override] # the port's, not the simulator's
        finish = super().begin_update(name)
        return lambda: Made(name, finish)

    def finish_update(self, outcome: Made) -> PolicyRelease:
        return replace(outcome.finish(), body=self._graph)

    def unity_model(self, behavior: str) -> bytes:
        return behavior.encode()

    def begin_save(self, run_state: Mapping[str, object]) -> SaveJob:
        del run_state
        return lambda folder: folder.mkdir()

    def load(self, folders: Sequence[Path]) -> Mapping[str, object]:
        raise AssertionError(f"nothing is to be loaded, asked for {folders}")

    def initialize_from(self, folders: Sequence[Path]) -> None:
        raise AssertionError(f"nothing is to be loaded, asked for {folders}")


def counted(folder: Path) -> tuple[int, int, int]:
    """What all players have counted: env steps, agent steps, decisions."""
    totals = [0, 0, 0]
    for file in sorted(folder.iterdir()):
        last = file.read_text().splitlines()[-1].split()
        totals = [total + int(each) for total, each in zip(totals, last, strict=True)]
    return totals[0], totals[1], totals[2]


def journals_in(root: Path) -> Path:
    """A folder for the journals of players, made."""
    folder = root / "journals"
    folder.mkdir(exist_ok=True)
    return folder
