"""Every message between actors. Reading this module is reading the architecture.

All messages name their run. Environments are known by (env_id, incarnation): an incarnation rises whenever the player
is started again, and what carries a stale one is dropped and counted. Arrays in messages are never changed by anybody.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from runtime.experience.actions import ActionInfo, ModelPolicy, Policy, pickled
from runtime.experience.brains import ActionSpec, BrainInfo, BrainParameters, EnvId, Incarnation
from runtime.experience.columns import StepBlock
from runtime.experience.parameters import ParameterValue
from runtime.experience.stats import Stat
from runtime.status import BrainStatus, EnvStatus

PlayerPhase = Literal["launch", "handshake", "reset", "step", "idle", "close"]
LossKind = Literal["died", "timeout", "protocol", "version", "content", "port", "environment"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvAssignment:
    """An environment of an EnvWorker. seed: of the handshake. port: 0 without a socket. restarts: after losses."""

    env_id: EnvId
    incarnation: Incarnation
    seed: int
    port: int
    restarts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StartWorker:
    """Supervisor -> EnvWorker: which environments to start, and how.

    env_factory: cloudpickled `PlayerFactory` (or a user's `env_factory`). Limits in seconds. carries: what StepsTaken
    brings back, columns for a learner or StepInfo records for code that holds the loop itself.
    """

    run: str
    worker: int
    environments: tuple[EnvAssignment, ...]
    env_factory: bytes
    run_seed: int
    start_timeout_s: float
    step_timeout_s: float
    block_steps_max: int
    deterministic: bool = False
    carries: Literal["columns", "step_infos"] = "columns"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPlayer:
    """Supervisor -> EnvWorker, TrainerController: start a player (again), on request or, told to both, after a loss."""

    run: str
    environment: EnvAssignment


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReady:
    """EnvWorker -> Supervisor -> TrainerController: the player of an environment has connected.

    pid: of the EnvWorker; player_pid: of the player, 0 when it has no process of its own. reset_parameters: all of the
    player's, as announced (GEN1), else None. takes_parameters: it can be told parameters without a reset.
    """

    run: str
    worker: int
    env_id: EnvId
    incarnation: Incarnation
    pid: int
    player_pid: int
    reset_parameters: Mapping[str, float] | None = None
    takes_parameters: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BrainsFound:
    """EnvWorker -> TrainerController: brains that this environment announced, whenever they appear."""

    run: str
    worker: int
    env_id: EnvId
    incarnation: Incarnation
    brains: tuple[BrainParameters, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetRequest:
    """TrainerController -> EnvWorker: reset one environment with these parameters.

    reset_id: rises by one with every reset of the environment; parameters_id: when parameters change for all players;
    train_mode: False for the player's normal speed.
    """

    run: str
    env_id: EnvId
    incarnation: Incarnation
    reset_id: int
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)
    train_mode: bool = True
    parameters_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvReset:
    """EnvWorker -> TrainerController: an environment was reset; `first` carries the first rows (its `steps` is 0)."""

    run: str
    worker: int
    first: StepBlock


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvGrant:
    """Credit for one environment: env steps until `until_step` of the incarnation; before `accepted_step` all came."""

    env_id: EnvId
    incarnation: Incarnation
    reset_id: int
    until_step: int
    accepted_step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepGrant:
    """TrainerController -> EnvWorker, or in a PolicyUpdate: how far each environment may go, and with which versions.

    versions: by behavior name. A grant replaces older ones of the same environment; one that is not newer is harmless.
    block_steps: env steps after which a block is sent, if possible together with those of the worker's other
    environments. gathers: True when it may wait for them though its environment stands still, as in a round.
    parameters: for players whose last reset or grant had a lower parameters_id, before their next step.
    """

    run: str
    grants: tuple[EnvGrant, ...]
    versions: Mapping[str, int]
    block_steps: int
    gathers: bool = False
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)
    parameters_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsTaken:
    """EnvWorker -> TrainerController: blocks of steps; each is accepted once or declared lost once."""

    run: str
    worker: int
    blocks: tuple[StepBlock, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepInfosTaken:
    """EnvWorker -> ActorEnvManager: StepInfo records, pickled, for code that holds the loop itself.

    body: cloudpickled `StepInfo`; env_step: its number in the incarnation, -1 for the answer to a reset.
    """

    run: str
    worker: int
    env_id: EnvId
    incarnation: Incarnation
    reset_id: int
    env_step: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyUpdate:
    """TrainerController -> PolicyHolder -> EnvWorkers: one version of one behavior's policy.

    kind: `onnx`, an acting graph; or `policy`, a cloudpickled hand-written `Policy`. grants: by EnvWorker, to act on.
    """

    run: str
    behavior: str
    version: int
    kind: Literal["onnx", "policy"]
    body: bytes
    grants: Mapping[int, StepGrant] = field(default_factory=dict)

    @staticmethod
    def from_policy(brain: str, policy: Policy, *, version: int = 0, run: str = "") -> PolicyUpdate:
        """An update that carries a policy for a brain (or behavior): a ModelPolicy's graph, or one written by hand.

        version 0 is a ModelPolicy's own; otherwise it and an empty run are filled in by `ActorEnvManager.publish`.
        Raises TypeError for what is no Policy and UsageError for one that cannot be pickled.
        """
        if not isinstance(policy, Policy):
            raise TypeError(f"a {type(policy).__name__} is no Policy; expected a runtime.experience.actions.Policy")
        behavior = brain.partition("?")[0]
        if isinstance(policy, ModelPolicy):
            body, version = policy.acting_model(), version or policy.version
            return PolicyUpdate(run=run, behavior=behavior, version=version, kind="onnx", body=body)
        return PolicyUpdate(run=run, behavior=behavior, version=version, kind="policy", body=pickled(policy))


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRequest:
    """anyone -> PolicyHolder: send me this version or a newer one, and all that follow. version 0: whatever is there.

    worker: number of the EnvWorker that asks, -1 for anybody else. only_acts: nobody there asks for values.
    """

    run: str
    behavior: str
    version: int
    worker: int = -1
    only_acts: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRequest:
    """any actor -> PolicyHolder: actions for the agents of a BrainInfo. seed and step key the sampling."""

    run: str
    request_id: int
    behavior: str
    brain_info: BrainInfo
    action_spec: ActionSpec
    seed: int = 0
    step: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionReply:
    """PolicyHolder -> any actor: the actions, and the version that chose them; refusal says why there are none."""

    run: str
    request_id: int
    behavior: str
    version: int
    action_info: ActionInfo | None
    refusal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayerLost:
    """EnvWorker -> TrainerController, Supervisor: the player of an environment is gone.

    unreported_steps: agent steps that the player may have counted in the exchange that broke, at most. All blocks taken
    before were sent before.
    """

    run: str
    worker: int
    env_id: EnvId
    incarnation: Incarnation
    phase: PlayerPhase
    kind: LossKind
    cause: str
    unreported_steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFailed:
    """Supervisor -> TrainerController: an EnvWorker is gone with its players; restarts: of each player before that."""

    run: str
    worker: int
    environments: tuple[tuple[EnvId, Incarnation], ...]
    cause: str
    is_restarted: bool = True
    restarts: Mapping[EnvId, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerAlive:
    """EnvWorker -> Supervisor: a heartbeat; the loop turns, whatever players do. busy_s: silence to expect after it."""

    run: str
    worker: int
    busy_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerNote:
    """EnvWorker -> Supervisor: a line for the operator. level: `note` or `fault`."""

    run: str
    worker: int
    level: Literal["note", "fault"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsReported:
    """EnvWorker -> TrainerController: values for curves, numbers that became 0, {what: (seconds, count)} spent."""

    run: str
    worker: int
    stats: tuple[Stat, ...]
    replaced_numbers: int = 0
    times: Mapping[str, tuple[float, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOverdue:
    """EnvWorker -> Supervisor: a policy that was granted has not come from the PolicyHolder in `waited_s` seconds."""

    run: str
    worker: int
    behavior: str
    version: int
    waited_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderFailed:
    """Supervisor -> TrainerController: the PolicyHolder of this incarnation is gone, and started again or not."""

    run: str
    incarnation: Incarnation
    cause: str
    is_restarted: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderRestarted:
    """Supervisor -> TrainerController, EnvWorker: a new PolicyHolder is there and knows nothing yet."""

    run: str
    incarnation: Incarnation


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPlayersRequest:
    """TrainerController -> Supervisor: start all players again, with new incarnations, not counted as a loss."""

    run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartDenied:
    """Supervisor -> TrainerController: a restart budget is spent or a loss cannot be cured; save and stop.

    cause: the first cause, and the times and causes of all restarts.
    """

    run: str
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRequest:
    """launcher -> Supervisor: a question after the newest Status."""

    run: str
    request_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """TrainerController -> Supervisor -> launcher: counters, environments, brains, what to print, and the end.

    lines: numbered; each is printed once. exit_reason: empty while it runs. replaced_numbers: as in StatsReported.
    """

    run: str
    env_steps: int
    agent_steps: int
    decisions: int
    lost_steps: Mapping[str, int]
    unreported_steps_max: int
    brains: tuple[BrainStatus, ...]
    environments: tuple[EnvStatus, ...]
    worker_restarts: Mapping[int, int]
    dropped_messages: Mapping[str, int]
    lines: tuple[tuple[int, str], ...]
    first_step_s: float | None
    replaced_numbers: int = 0
    exit_reason: str = ""
    exit_code: int = 0
    cause: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequest:
    """launcher -> Supervisor -> TrainerController, EnvWorker: end; save or not; within the deadline (seconds)."""

    run: str
    reason: str
    saves: bool
    deadline_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """TrainerController, EnvWorker -> Supervisor -> launcher: this part has ended and left nothing running."""

    run: str
    part: str
    exit_reason: str = ""
    exit_code: int = 0
    cause: str = ""
