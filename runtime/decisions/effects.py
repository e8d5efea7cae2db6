"""What the decision machines ask of their shells, and the facts shells report back.

A machine takes one message or fact and returns a tuple of effects; the shell carries them out in order. Effects that
talk to a player or to learning are answered by a fact, one more message for the machine.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from runtime.experience.brains import BrainParameters, EnvId, Incarnation
from runtime.experience.columns import StepBlock
from runtime.experience.parameters import ParameterValue
from runtime.experience.stats import Stat
from runtime.learner import BrainProgress, PolicyRelease
from runtime.messages import EnvAssignment, LossKind, PlayerPhase, PolicyUpdate


@dataclass(frozen=True, slots=True)
class Role:
    """A part of the run by its name: `supervisor`, `controller`, `holder`, `worker` 0.., `launcher`."""

    kind: Literal["supervisor", "controller", "holder", "worker", "launcher"]
    number: int = 0

    def __str__(self) -> str:
        return f"{self.kind} {self.number}" if self.kind == "worker" else self.kind


SUPERVISOR = Role("supervisor")
CONTROLLER = Role("controller")
HOLDER = Role("holder")
LAUNCHER = Role("launcher")


def worker_role(number: int) -> Role:
    """The role of EnvWorker `number`."""
    return Role("worker", number)


# Effects that every shell knows.


@dataclass(frozen=True, slots=True)
class Send:
    """Send a message to another part."""

    to: Role
    message: object


@dataclass(frozen=True, slots=True)
class Reply:
    """Send a message to whoever sent one before: `to` is the opaque address that came with it."""

    to: object
    message: object


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Hand the machine `TimerFired(token)` after delay_s seconds; a later timer of the same token replaces it."""

    token: Hashable
    delay_s: float


@dataclass(frozen=True, slots=True)
class CancelTimer:
    """Forget the timer of this token, if there is one."""

    token: Hashable


@dataclass(frozen=True, slots=True)
class Report:
    """Tell the operator: `fault` lines are shown and kept, `note` lines are shown."""

    level: Literal["note", "fault"]
    text: str


@dataclass(frozen=True, slots=True)
class Finish:
    """This part has nothing more to do."""


@dataclass(frozen=True, slots=True)
class TimerFired:
    """A timer of the machine's ran out."""

    token: Hashable


# EnvWorker: effects on players, and the facts they come back as.


@dataclass(frozen=True, slots=True)
class OpenPlayer:
    """Launch and connect the player of this assignment; answered by PlayerConnected or PlayerFailed."""

    assignment: EnvAssignment


@dataclass(frozen=True, slots=True)
class ResetPlayer:
    """Reset the player; answered by PlayerReplied or PlayerFailed."""

    env_id: EnvId
    incarnation: Incarnation
    reset_id: int
    parameters: Mapping[str, ParameterValue]
    train_mode: bool


@dataclass(frozen=True, slots=True)
class StepPlayer:
    """Act on the player's last reply with these policy versions and send the actions; answered like ResetPlayer.

    parameters: new ones, for the player to be told with the step. begins_block: other versions acted before: a block
    knows one version of each behavior. own: so many replies, if they show the same agents, may be answered with the
    next step without asking (`OwnSteps`).
    """

    env_id: EnvId
    incarnation: Incarnation
    step: int
    versions: Mapping[str, int]
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)
    begins_block: bool = False
    own: int = 0


@dataclass(frozen=True, slots=True)
class SendReset:
    """Send EnvReset with the rows of the reset that was just answered."""

    env_id: EnvId
    incarnation: Incarnation


@dataclass(frozen=True, slots=True)
class SendBlocks:
    """Send one StepsTaken with the open blocks of these environments, and begin new ones."""

    env_ids: tuple[EnvId, ...]


@dataclass(frozen=True, slots=True)
class ClosePlayer:
    """End the player of an environment; answered by PlayerClosed."""

    env_id: EnvId
    incarnation: Incarnation


@dataclass(frozen=True, slots=True)
class InstallPolicy:
    """Make this policy version ready to act with."""

    update: PolicyUpdate


@dataclass(frozen=True, slots=True)
class PlayerConnected:
    """A player passed its handshake. reset_parameters: all that it has; None: it told nothing of them."""

    env_id: EnvId
    incarnation: Incarnation
    player_pid: int
    reset_parameters: Mapping[str, float] | None = None
    brains: tuple[BrainParameters, ...] = ()
    takes_parameters: bool = False


@dataclass(frozen=True, slots=True)
class PlayerReplied:
    """A player answered a reset or a step. pending: agents that wait for a decision, by behavior, zeros included."""

    env_id: EnvId
    incarnation: Incarnation
    pending: Mapping[str, int]
    brains: tuple[BrainParameters, ...] = ()


@dataclass(frozen=True, slots=True)
class PlayerStepped:
    """A player answered so many steps, each followed by the next one at once, as it was allowed; one is under way."""

    env_id: EnvId
    incarnation: Incarnation
    steps: int


@dataclass(frozen=True, slots=True)
class PlayerFailed:
    """A player is gone or unusable. unreported_steps: agent steps it may have counted in the exchange that broke."""

    env_id: EnvId
    incarnation: Incarnation
    phase: PlayerPhase
    kind: LossKind
    cause: str
    unreported_steps: int = 0


@dataclass(frozen=True, slots=True)
class PlayerClosed:
    """A player was ended on our request."""

    env_id: EnvId
    incarnation: Incarnation


# TrainerController: effects on learning and storage, and the facts they come back as.


@dataclass(frozen=True, slots=True)
class AddBrain:
    """Make a brain known to the learner; answered by BrainAdded or LearnerFailed."""

    brain: BrainParameters


@dataclass(frozen=True, slots=True)
class WarmUp:
    """Compile the update of a behavior on the learner thread; no answer is needed."""

    behavior: str


@dataclass(frozen=True, slots=True)
class AcceptBlocks:
    """Give blocks to the learner in this order; answered by BlocksAccepted or LearnerFailed."""

    blocks: tuple[StepBlock, ...]


@dataclass(frozen=True, slots=True)
class CutTrajectories:
    """End the open trajectories of one environment, or of all when None."""

    env_id: EnvId | None


@dataclass(frozen=True, slots=True)
class StartUpdate:
    """Update a behavior on the learner thread; answered by UpdateFinished or LearnerFailed."""

    behavior: str


@dataclass(frozen=True, slots=True)
class StartSave:
    """Write a checkpoint and the models on the learner thread; answered by SaveFinished."""

    run_state: Mapping[str, object]
    is_final: bool


@dataclass(frozen=True, slots=True)
class WriteSummary:
    """Write summary.json from the machine's state as it is now; exit_reason is empty while the run goes on."""

    exit_reason: str = ""


@dataclass(frozen=True, slots=True)
class RecordStats:
    """Keep what players reported for the next summary, and what took an EnvWorker its time."""

    stats: tuple[Stat, ...]
    times: Mapping[str, tuple[float, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PushStatus:
    """Send a Status made from the machine's state to the Supervisor."""


@dataclass(frozen=True, slots=True)
class BrainAdded:
    """The learner knows a brain; release is None when the behavior was known. checkpoint_interval: in agent steps."""

    brain: BrainParameters
    release: PolicyRelease | None
    progress: Mapping[str, BrainProgress]
    checkpoint_interval: int


@dataclass(frozen=True, slots=True)
class BlocksAccepted:
    """The learner has taken the blocks. returns: of the episodes that ended in them, by behavior, for lessons."""

    progress: Mapping[str, BrainProgress]
    has_summaries: bool = False
    returns: Mapping[str, Sequence[float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UpdateFinished:
    """learner thread -> its own TrainerController: a new policy."""

    release: PolicyRelease
    progress: Mapping[str, BrainProgress]


@dataclass(frozen=True, slots=True)
class SaveFinished:
    """A save has ended; error is empty when it succeeded."""

    is_final: bool
    error: str = ""


@dataclass(frozen=True, slots=True)
class LearnerFailed:
    """Learning cannot go on: the text for the user and the exit code (3: the environment's content).

    behavior: whose update failed, if it was an update.
    """

    cause: str
    exit_code: int
    behavior: str = ""


# Supervisor: effects on parts, and the facts they come back as.


@dataclass(frozen=True, slots=True)
class SpawnPart:
    """Start a part; answered by PartReady or PartExited."""

    role: Role
    generation: int


@dataclass(frozen=True, slots=True)
class KillPart:
    """Kill a part's process at once, its players with it; answered by PartExited."""

    role: Role
    generation: int


@dataclass(frozen=True, slots=True)
class PartReady:
    """A part runs and can be reached."""

    role: Role
    generation: int
    pid: int


@dataclass(frozen=True, slots=True)
class PartExited:
    """A part's process is gone."""

    role: Role
    generation: int
    cause: str
