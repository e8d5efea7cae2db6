"""The port through which the TrainerController reaches learning; `trainers` implements it.

The controller's process calls everything but `UpdateJob`, `SaveJob` and `warm_up` on one thread; those three run on the
learner thread, one at a time, while the controller goes on calling the rest. So `begin_update` and `begin_save` take a
snapshot and their jobs touch nothing else that is shared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from runtime.experience.brains import BrainParameters, EnvId
from runtime.experience.columns import StepBlock

if TYPE_CHECKING:
    from runtime.experience.demonstrations import Demonstration

Schedule = Literal["constant", "linear"]
TrainerType = Literal["ppo", "offline_bc", "online_bc"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PPOHyperparameters:
    """Names, meaning and defaults as in ML-Agents' `hyperparameters` for `trainer_type: ppo`."""

    batch_size: int = 1024
    buffer_size: int = 10240
    learning_rate: float = 3.0e-4
    learning_rate_schedule: Schedule = "linear"
    beta: float = 5.0e-3
    beta_schedule: Schedule = "linear"
    epsilon: float = 0.2
    epsilon_schedule: Schedule = "linear"
    lambd: float = 0.95
    num_epoch: int = 3
    shared_critic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings:
    """A recurrent network: numbers that an agent remembers, and steps through which learning looks back at once.

    memory_size: even, as half of it is what the LSTM gives out and half what it keeps to itself.
    """

    memory_size: int = 128
    sequence_length: int = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSettings:
    """The network's shape: `num_layers` hidden layers of `hidden_units`, observations normalised or not.

    memory: None for a network without.
    """

    normalize: bool = False
    hidden_units: int = 128
    num_layers: int = 2
    vis_encode_type: str = "simple"
    goal_conditioning_type: str = "hyper"
    deterministic: bool = False
    memory: MemorySettings | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardSignalSettings:
    """Discount `gamma` and factor `strength` of one reward signal."""

    gamma: float = 0.99
    strength: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CuriositySettings(RewardSignalSettings):
    """Of the signal `curiosity`. learning_rate: of its own networks, constant; network_settings: of its encoder."""

    learning_rate: float = 3.0e-4
    network_settings: NetworkSettings = NetworkSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class CloningSettings:
    """Learning from demonstrations; keys and defaults as in ML-Agents, today's and that of 2019.

    demo_path: a `.demo` file or a folder of them; not of `online_bc`. After each update of `ppo`: strength, times the
    learning rate; steps, in which the learning rate falls to 0 (0 = it stays); batch_size and num_epoch, None for those
    of the trainer; samples_per_update, 0 = all. Of `offline_bc` and `online_bc`: batches_per_epoch, minibatches of an
    update. Of `online_bc` alone: brain_to_imitate, which the player plays.
    """

    demo_path: str = ""
    strength: float = 1.0
    steps: int = 0
    batch_size: int | None = None
    num_epoch: int | None = None
    samples_per_update: int = 0
    batches_per_epoch: int = 10
    brain_to_imitate: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BehaviorSettings:
    """All settings of one behavior. max_steps, summary_freq and checkpoint_interval count agent steps.

    counts_env_steps: they count env steps of the whole run, as in files of ML-Agents 0.8 to 0.15. trainer_type: with
    `offline_bc` and `online_bc` an update is due after each `time_horizon` agent steps, and learns from demonstrations
    alone.
    """

    trainer_type: TrainerType = "ppo"
    hyperparameters: PPOHyperparameters = PPOHyperparameters()
    network_settings: NetworkSettings = NetworkSettings()
    reward_signals: Mapping[str, RewardSignalSettings] = field(
        default_factory=lambda: {"extrinsic": RewardSignalSettings()},
    )
    init_path: str | None = None
    keep_checkpoints: int = 5
    checkpoint_interval: int = 500_000
    even_checkpoints: bool = False
    max_steps: int = 500_000
    time_horizon: int = 64
    summary_freq: int = 50_000
    threaded: bool = False
    counts_env_steps: bool = False
    behavioral_cloning: CloningSettings | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRelease:
    """One version of one behavior's policy, as the ONNX graph that acts (its contract: `runtime/acting`).

    warning: what the user should know of it, as that it begins with random weights although others were to be taken.
    """

    behavior: str
    version: int
    body: bytes
    warning: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrainProgress:
    """How far one behavior is.

    steps: agent steps accepted; with counts_env_steps, env steps of the run. buffered: agent steps that wait for the
    next update, open trajectories included.
    is_ready_update: an update is due. version: of the newest policy. episodes: finished ones, lost ones not counted.
    mean_reward, mean_episode_length: over the last 100 finished episodes; None when there are none. A return is the sum
    of an agent's own rewards and of those of its group.
    """

    behavior: str
    steps: int
    max_steps: int
    buffered: int
    buffer_size: int
    is_ready_update: bool
    version: int
    episodes: int
    mean_reward: float | None
    mean_episode_length: float | None
    counts_env_steps: bool = False

    @property
    def is_finished(self) -> bool:
        """True once `max_steps` steps were accepted."""
        return self.steps >= self.max_steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a behavior reports at each multiple of `summary_freq`.

    step: that multiple. mean_reward, std_reward: of the episodes finished since the last summary, own rewards alone;
    None without any. mean_group_reward: of the same episodes, what their groups were given; None where groups are given
    nothing. values: TensorBoard tags and their values, means since the last summary.
    """

    behavior: str
    step: int
    mean_reward: float | None
    std_reward: float | None
    values: Mapping[str, float]
    mean_group_reward: float | None = None


class UpdateOutcome(Protocol):
    """What an update made; opaque to the controller."""

    @property
    def behavior(self) -> str:
        """Whose update it was."""


UpdateJob = Callable[[], UpdateOutcome]
ReadDemonstrations = Callable[[str], "Sequence[Demonstration]"]
SaveJob = Callable[[Path], None]


def _nothing_to_say(_behavior: str) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerOptions:
    """What a learner is made from.

    run_seed: all randomness of learning follows from it. settings_for: the settings of a behavior; raises UsageError
    for a name that the configuration does not know. is_training: False for `--inference`: nothing is learned.
    keeps_versions: policy versions whose data may still arrive (1 in synchronous collection). demonstrations: those at
    a `demo_path`, all of one brain; raises DemonstrationError. None where nobody has any. note_for: what the operator
    should know about the settings of a behavior, "" for nothing.
    """

    run_seed: int
    settings_for: Callable[[str], BehaviorSettings]
    is_training: bool = True
    keeps_versions: int = 1
    demonstrations: ReadDemonstrations | None = None
    note_for: Callable[[str], str] = _nothing_to_say


class Learner(Protocol):
    """Learning for all behaviors of a run."""

    def add_brain(self, brain: BrainParameters) -> PolicyRelease | None:
        """The first policy of a new behavior, or None when the behavior is known already (another team of it).

        Needs no TensorFlow and takes milliseconds, beside reading demonstrations. Raises UsageError when the brain
        cannot be trained (by name: what is not supported), or differs in shape from the same behavior seen before or
        from what was demonstrated.
        """

    def warm_up(self, behavior: str) -> None:
        """Loads the learning library and compiles the update of `behavior`. Runs on the learner thread."""

    def accept(self, block: StepBlock) -> None:
        """Takes one block. Blocks of one environment must come in the order of their first_step.

        Raises PlayerContentError when a value is not finite, naming environment, brain, agent, field, index and step;
        nothing of the block is kept then.
        """

    def cut(self, env_id: EnvId | None = None) -> None:
        """Ends the open trajectories of one environment, or of all: bootstrapped from their last observation.

        Their episodes count as lost: they are in no mean reward.
        """

    def cut_idle(self, env_id: EnvId, steps_max: int) -> int:
        """Ends the trajectories of agents silent for more than `steps_max` env steps; says how many."""

    def progress(self) -> Mapping[str, BrainProgress]:
        """Progress by behavior, in the order of names."""

    def take_summaries(self) -> Sequence[Summary]:
        """Summaries that became due since the last call, oldest first."""

    def take_returns(self) -> Mapping[str, Sequence[float]]:
        """Returns of the episodes that have ended since the last call, by behavior, in the order of their acceptance.

        Rewards of groups included, as in `mean_reward`. Called only where lessons need them.
        """

    def begin_update(self, behavior: str) -> UpdateJob:
        """A job that updates `behavior` from what is buffered.

        The buffer is empty afterwards; open trajectories of the behavior were cut, without ending their episodes.
        """

    def finish_update(self, outcome: UpdateOutcome) -> PolicyRelease:
        """The new policy. Raises LearnerError when weights or losses are not finite; the old policy stays."""

    def unity_model(self, behavior: str) -> bytes:
        """The policy as the ONNX file that Unity loads; byte-deterministic."""

    def begin_save(self, run_state: Mapping[str, object]) -> SaveJob:
        """A job that writes a complete checkpoint folder at the path given to it, atomically, with checksums.

        It holds weights, optimiser, normaliser, counters, random state, buffered experience, and `run_state`, which
        must be JSON.
        """

    def load(self, folders: Sequence[Path]) -> Mapping[str, object]:
        """Restores the first loadable checkpoint of `folders` and returns its `run_state`.

        Key `damaged` of the result lists folders that were skipped, with the reason. Raises StorageError when none
        can be loaded, UsageError when a behavior does not fit its settings any more. Behaviors are back at once, in
        `progress` too, and `add_brain` gives the policy of each when it meets it again. One that the configuration no
        longer names stays in every checkpoint.
        """

    def initialize_from(self, folders: Sequence[Path]) -> None:
        """Takes the weights and normalisers alone from the first loadable checkpoint; counters start at 0."""


LearnerFactory = Callable[[LearnerOptions], Learner]
