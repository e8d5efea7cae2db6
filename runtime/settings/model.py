"""The settings of a run, complete and checked: whoever holds a `RunSettings` need not look for defaults or faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from runtime.errors import UsageError
from runtime.experience.lessons import Criterion
from runtime.learner import BehaviorSettings
from runtime.settings.faults import listed, nearest, shown
from runtime.settings.names import behavior_name

CollectionMode = Literal["sync", "async"]
ActorSystemKind = Literal["processes", "inline"]
NotFinite = Literal["refuse", "zero"]
PortArgument = Literal["both", "mlagents-port", "port"]

EDITOR_PORT = 5004
BASE_PORT = 5005
FAKE_SCHEME = "fake:"


@dataclass(frozen=True, slots=True)
class Editor:
    """The Unity Editor, in which a person presses Play."""


@dataclass(frozen=True, slots=True)
class FakeScene:
    """The bundled player. url: `fake:SCENE[?k=v[&k=v]]`, as the user wrote it."""

    url: str

    @property
    def scene(self) -> str:
        """The scene's name."""
        return self.url.removeprefix(FAKE_SCHEME).partition("?")[0]


@dataclass(frozen=True, slots=True)
class Executable:
    """A player's program, or one of the names under which Unity builds are known. path: as the user wrote it."""

    path: str


EnvTarget = Editor | FakeScene | Executable


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartLimits:
    """How often one environment may be restarted: in all, and `rate_n` times within `rate_period_s`; -1 = no limit."""

    lifetime: int = 10
    rate_n: int = 3
    rate_period_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentSettings:
    """What is launched and how long it may take.

    base_port: the port of environment 0; the others follow. is_base_port_fixed: it was asked for, or belongs to the
    Editor, so a busy port is an error and no other is tried. timeout_wait_s bounds start-up, step_timeout_s each
    exchange. seed: never -1, drawn if nobody gave one (seed_given False). bind: None for loopback. message_bytes_max:
    of one message of a player on a socket, -1 = no limit. not_finite: what becomes of NaN and infinities of players,
    an error or 0. port_argument: the word before the port on the player's command line, without its dashes.
    """

    target: EnvTarget = Editor()
    env_args: tuple[str, ...] = ()
    base_port: int = EDITOR_PORT
    is_base_port_fixed: bool = True
    num_envs: int = 1
    num_areas: int = 1
    timeout_wait_s: float = 60.0
    step_timeout_s: float = 60.0
    seed: int = 0
    seed_given: bool = False
    restarts: RestartLimits = RestartLimits()
    bind: str | None = None
    message_bytes_max: int = -1
    not_finite: NotFinite = "refuse"
    port_argument: PortArgument = "both"
    no_graphics: bool = False
    no_graphics_monitor: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """What the player is told about its engine: window in pixels, quality, time scale, frame rates (-1 = default)."""

    width: int = 84
    height: int = 84
    quality_level: int = 5
    time_scale: float = 20.0
    target_frame_rate: int = -1
    capture_frame_rate: int = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSettings:
    """Where the run's files are and what becomes of earlier ones. run_id_given: False when the id is a default."""

    run_id: str = "ppo"
    run_id_given: bool = False
    results_dir: str = "results"
    resume: bool = False
    force: bool = False
    initialize_from: str | None = None
    inference: bool = False


@dataclass(frozen=True, slots=True)
class ConstantParameter:
    """An environment parameter with one value."""

    value: float


@dataclass(frozen=True, slots=True)
class UniformSampler:
    """Drawn by the player, evenly between two values. seed: -1 = from the run's seed."""

    min_value: float = 0.0
    max_value: float = 1.0
    seed: int = -1


@dataclass(frozen=True, slots=True)
class GaussianSampler:
    """Drawn by the player from a normal distribution. seed: -1 = from the run's seed."""

    mean: float = 1.0
    st_dev: float = 1.0
    seed: int = -1


@dataclass(frozen=True, slots=True)
class MultiRangeUniformSampler:
    """Drawn by the player from several intervals, weighted by their lengths. seed: -1 = from the run's seed."""

    intervals: tuple[tuple[float, float], ...] = ((0.0, 1.0),)
    seed: int = -1


SampledParameter = ConstantParameter | UniformSampler | GaussianSampler | MultiRangeUniformSampler


@dataclass(frozen=True, slots=True)
class LessonSettings:
    """One lesson: the value that players are given, and when it ends; None for the last."""

    name: str
    value: SampledParameter
    criterion: Criterion | None = None


@dataclass(frozen=True, slots=True)
class CurriculumParameter:
    """An environment parameter with lessons, at least one. source: where they were written, for messages alone."""

    lessons: tuple[LessonSettings, ...]
    source: str = field(default="", compare=False)


ParameterSettings = SampledParameter | CurriculumParameter


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """Everything that a run is asked to do.

    default_settings: of behaviors without a block of their own; None when the configuration has none, and such
    behaviors are refused. config: the file as the user named it, None for a bundled configuration or none.
    bundled_scene: whose bundled configuration is used, None if none is. stop_at, restart_envs_at: agent steps.
    record: the file to which all messages of the players are written. profile: samples tell where the time goes.
    num_runs: runs that are made one after another. is_slow: players are not in training mode. lesson: with which every
    curriculum begins, None for 0 or the saved one. resampling_interval: env steps after which all players are reset
    with newly drawn parameters, None for never.
    """

    behaviors: Mapping[str, BehaviorSettings] = field(default_factory=dict)
    default_settings: BehaviorSettings | None = None
    environment: EnvironmentSettings = EnvironmentSettings()
    engine: EngineSettings = EngineSettings()
    checkpoints: CheckpointSettings = CheckpointSettings()
    environment_parameters: Mapping[str, ParameterSettings] = field(default_factory=dict)
    collection: CollectionMode = "sync"
    workers: int = 1
    actor_system: ActorSystemKind = "processes"
    stop_at: int | None = None
    restart_envs_at: int | None = None
    deterministic: bool = False
    record: str | None = None
    profile: bool = False
    debug: bool = False
    num_runs: int = 1
    is_slow: bool = False
    lesson: int | None = None
    resampling_interval: int | None = None
    config: str | None = None
    bundled_scene: str | None = None
    warnings: tuple[str, ...] = ()

    def settings_for(self, brain: str) -> BehaviorSettings:
        """The settings of a brain; `Name?team=0` has those of `Name`. Raises UsageError for an unknown name."""
        name = behavior_name(brain)
        found = self.behaviors.get(name, self.default_settings)
        if found is not None:
            return found
        close = nearest(name, self.behaviors)
        raise UsageError(
            f"the player announced the behavior {shown(name)!r}, which the configuration does not name; "
            f"it names: {listed(sorted(self.behaviors)) or 'none'}{f'; nearest: {close}' if close else ''}. "
            "Correct the name under `behaviors:`, or add `default_settings:` for all others.",
        )

    def note_for(self, brain: str) -> str:
        """Which settings a brain has where that may be a slip: the default ones, though others have blocks; else ""."""
        name = behavior_name(brain)
        if name in self.behaviors or not self.behaviors or self.default_settings is None:
            return ""
        return (
            f"behavior {shown(name)!r} takes the default settings; blocks of their own have: "
            f"{listed(sorted(self.behaviors))}"
        )
