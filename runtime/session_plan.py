"""From settings to the plan of a run: what every part is made from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import cloudpickle

from runtime.actors.composition import RunPlan
from runtime.actors.controller_start import ControllerStart
from runtime.decisions.controller_state import ControllerOptions
from runtime.decisions.restarts import RestartLimits
from runtime.decisions.supervisor import SupervisorOptions
from runtime.errors import DemonstrationError
from runtime.experience.brains import EnvId
from runtime.experience.demonstrations import Demonstration
from runtime.experience.lessons import Lesson, LessonPlan, criteria
from runtime.experience.parameters import GaussianDraw, MultiRangeDraw, ParameterValue, UniformDraw
from runtime.learner import LearnerFactory, LearnerOptions
from runtime.messages import StartWorker
from runtime.recording_options import RecordingOptions
from runtime.run_directory import RunPaths
from runtime.settings.model import (
    ConstantParameter,
    CurriculumParameter,
    Editor,
    Executable,
    FakeScene,
    GaussianSampler,
    MultiRangeUniformSampler,
    RunSettings,
    SampledParameter,
    UniformSampler,
)

if TYPE_CHECKING:
    from runtime.players.factories import MemoryPlayerFactory, UnityPlayerFactory
    from runtime.players.recording import RecordTo

NO_LIMIT_S = 10.0 * 365 * 24 * 3600
ASYNC_VERSIONS_KEPT = 3
BLOCK_STEPS_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is launched, as `--env` says it; None is the Editor."""

    text: str | None
    is_in_memory: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Everything about a run that is known before its parts start.

    worker_silence_s: an EnvWorker that says nothing for this long is taken for hung.
    """

    settings: RunSettings
    run_id: str
    paths: RunPaths
    launched_s: float
    launched_at: float
    first_incarnation: int
    learner_factory: LearnerFactory
    resume: tuple[Path, ...]
    initialize: tuple[Path, ...]
    worker_silence_s: float = 15.0


def player_target(settings: RunSettings) -> Target:
    """What is launched. Raises UsageError for an executable or a scene that is not there."""
    match settings.environment.target:
        case Editor():
            return Target(text=None, is_in_memory=False)
        case FakeScene(url):
            from runtime.players.factories import fake_spec  # noqa: PLC0415 - scenes are only loaded where needed

            return Target(text=url, is_in_memory=fake_spec(url).link == "memory")
        case Executable(path):
            from runtime.players.executables import find_executable  # noqa: PLC0415

            return Target(text=str(find_executable(path)), is_in_memory=False)


def make_plan(launch: Launch, *, marker: str) -> RunPlan:
    """The plan of a run. marker: how its processes are known."""
    settings = launch.settings
    template = start_worker(launch, marker)
    envs = spread(settings.environment.num_envs, settings.workers)
    target = player_target(settings)
    base = settings.environment.base_port
    limits = settings.environment.restarts
    supervisor = SupervisorOptions(
        run=launch.run_id,
        worker_envs=envs,
        template=template,
        ports={EnvId(each): 0 if target.is_in_memory else base + each for each in range(settings.environment.num_envs)},
        limits=RestartLimits(lifetime_max=limits.lifetime, rate_max=limits.rate_n, period_s=limits.rate_period_s),
        first_incarnation=launch.first_incarnation,
        silence_s=launch.worker_silence_s,
    )
    return RunPlan(
        run=launch.run_id,
        supervisor=supervisor,
        controller=controller_start(launch, workers=len(envs)),
        profile=str(launch.paths.profile.absolute()) if settings.profile else None,
    )


def spread(environments: int, workers: int) -> tuple[tuple[EnvId, ...], ...]:
    """Environments per EnvWorker: contiguous ranges, as even as possible."""
    count = max(1, min(environments, workers))
    size, extra = divmod(environments, count)
    ranges, first = [], 0
    for worker in range(count):
        last = first + size + (1 if worker < extra else 0)
        ranges.append(tuple(EnvId(each) for each in range(first, last)))
        first = last
    return tuple(ranges)


def start_worker(launch: Launch, marker: str) -> StartWorker:
    """The StartWorker that the Supervisor completes for each EnvWorker."""
    env = launch.settings.environment
    waits_for_person = isinstance(env.target, Editor)
    return StartWorker(
        run=launch.run_id,
        worker=0,
        environments=(),
        env_factory=cloudpickle.dumps(player_factory_for(launch, marker)),
        run_seed=env.seed,
        start_timeout_s=NO_LIMIT_S if waits_for_person else env.timeout_wait_s,
        step_timeout_s=env.step_timeout_s,
        block_steps_max=BLOCK_STEPS_MAX,
        deterministic=launch.settings.deterministic,
    )


def player_factory_for(launch: Launch, marker: str) -> UnityPlayerFactory | MemoryPlayerFactory:
    """How EnvWorkers get their players."""
    from runtime.players.factories import (  # noqa: PLC0415 - see player_target
        PORT_WORDS,
        LinkExtras,
        MemoryPlayerFactory,
        UnityPlayerFactory,
    )
    from runtime.players.side_channels import EngineSettings as Engine  # noqa: PLC0415

    settings, env = launch.settings, launch.settings.environment
    engine = Engine(
        width=settings.engine.width,
        height=settings.engine.height,
        quality_level=settings.engine.quality_level,
        time_scale=settings.engine.time_scale,
        normal_speed=settings.engine.time_scale if settings.is_slow else 1.0,
        target_frame_rate=settings.engine.target_frame_rate,
        capture_frame_rate=settings.engine.capture_frame_rate,
    )
    target = player_target(settings)
    extras = LinkExtras(
        nonfinite=env.not_finite,
        imitated=imitated_brains(settings),
        default_teacher=default_teacher(settings),
        named=frozenset(settings.behaviors),
        open_tap=recording(settings, launch.first_incarnation),
    )
    if target.is_in_memory and target.text is not None:
        return MemoryPlayerFactory(target=target.text, engine=engine, num_areas=env.num_areas, extras=extras)
    return UnityPlayerFactory(
        target=target.text,
        engine=engine,
        run=marker,
        log_folder=str(launch.paths.run_logs.absolute()),
        args=env.env_args,
        no_graphics=env.no_graphics,
        no_graphics_monitor=env.no_graphics_monitor,
        num_areas=env.num_areas,
        bind=env.bind or "",
        message_bytes_max=env.message_bytes_max,
        port_arguments=PORT_WORDS if env.port_argument == "both" else (f"--{env.port_argument}",),
        extras=extras,
    )


def recording(settings: RunSettings, first_incarnation: int = 0) -> RecordTo | None:
    """Where `--record` writes; None without it."""
    if settings.record is None:
        return None
    from runtime.players.recording import RecordTo  # noqa: PLC0415 - see player_target

    return RecordTo(
        file=str(Path(settings.record).absolute()),
        environments=settings.environment.num_envs,
        first_incarnation=first_incarnation,
        target=player_target(settings).text or "Editor",
    )


def controller_start(launch: Launch, *, workers: int) -> ControllerStart:
    """What the TrainerController is made from."""
    settings, env = launch.settings, launch.settings.environment
    is_training = not settings.checkpoints.inference
    is_sync = settings.collection == "sync"
    plans = lesson_plans(settings)
    options = ControllerOptions(
        run=launch.run_id,
        environments=env.num_envs,
        is_sync=is_sync,
        is_training=is_training,
        block_steps_max=BLOCK_STEPS_MAX,
        stop_at=settings.stop_at,
        restart_envs_at=settings.restart_envs_at,
        parameters=environment_parameters(settings),
        train_mode=not settings.is_slow,
        lessons=plans,
        first_lesson=settings.lesson,
        resampling_interval=settings.resampling_interval,
        first_incarnation=launch.first_incarnation,
    )
    keeps = [each.keep_checkpoints for each in (*settings.behaviors.values(), settings.default_settings) if each]
    recording = RecordingOptions(
        run_id=launch.run_id,
        seed=env.seed,
        root=str(launch.paths.root.absolute()),
        launched_s=launch.launched_s,
        launched_at=launch.launched_at,
        keeps=max(1, *keeps) if keeps else 5,
        workers=workers,
        is_training=is_training,
        lesson_brains={each.parameter: found[0].behavior for each in plans if (found := criteria((each,)))},
    )
    learner_options = LearnerOptions(
        run_seed=env.seed,
        settings_for=settings.settings_for,
        note_for=settings.note_for,
        is_training=is_training,
        keeps_versions=1 if is_sync else ASYNC_VERSIONS_KEPT,
        demonstrations=DemonstrationFiles(str(Path.cwd())),
    )
    return ControllerStart(
        options=options,
        recording=recording,
        learner=cloudpickle.dumps((launch.learner_factory, learner_options)),
        resume=tuple(str(each.absolute()) for each in launch.resume),
        initialize=tuple(str(each.absolute()) for each in launch.initialize),
    )


@dataclass(frozen=True, slots=True)
class DemonstrationFiles:
    """Reads demonstrations for a learner. folder: where paths that are not absolute begin."""

    folder: str

    def __call__(self, path: str) -> tuple[Demonstration, ...]:
        """Those in the file or folder at `path`."""
        from runtime.players.demonstrations import read_demonstrations  # noqa: PLC0415 - few runs have any

        return read_demonstrations(Path(self.folder) / path)


def imitated_brains(settings: RunSettings) -> tuple[str, ...]:
    """Brains that the player plays and somebody learns from, whoever appears; none in inference."""
    if settings.checkpoints.inference:
        return ()
    known = tuple(settings.behaviors.values()) or (settings.default_settings,)
    names = {each.behavioral_cloning.brain_to_imitate for each in known if each is not None and each.behavioral_cloning}
    return tuple(sorted(filter(None, names)))


def default_teacher(settings: RunSettings) -> str:
    """The brain that behaviors without settings of their own learn from, beside behaviors that have some; or empty."""
    defaults = settings.default_settings
    if settings.checkpoints.inference or not settings.behaviors or defaults is None or not defaults.behavioral_cloning:
        return ""
    return defaults.behavioral_cloning.brain_to_imitate


def check_demonstrations(settings: RunSettings) -> tuple[str, ...]:
    """Reads all demonstrations that the run asks for. Raises DemonstrationError for those that cannot be read.

    Those of `default_settings:` beside named behaviors may be needed by nobody: what is wrong with them is returned, to
    be said now; it ends the run once a behavior without settings of its own appears.
    """
    if settings.checkpoints.inference:
        return ()
    read, defaults = DemonstrationFiles(str(Path.cwd())), settings.default_settings
    known = tuple(settings.behaviors.values()) or (defaults,)
    paths = {each.behavioral_cloning.demo_path for each in known if each is not None and each.behavioral_cloning}
    for path in sorted(filter(None, paths)):
        read(path)
    spare = "" if defaults is None or not defaults.behavioral_cloning else defaults.behavioral_cloning.demo_path
    if not spare or spare in paths:
        return ()
    try:
        read(spare)
    except DemonstrationError as error:
        return (f"default_settings: {error} A behavior without settings of its own would end the run.",)
    return ()


def environment_parameters(settings: RunSettings) -> dict[str, ParameterValue]:
    """What every player is given at a reset, lessons aside.

    A sampler without a seed of its own gets the run's, plus its place.
    """
    return {
        name: _given(each, settings.environment.seed + place)
        for place, (name, each) in enumerate(settings.environment_parameters.items())
        if not isinstance(each, CurriculumParameter)
    }


def lesson_plans(settings: RunSettings) -> tuple[LessonPlan, ...]:
    """The parameters that have lessons, in the order in which they were written."""
    return tuple(
        LessonPlan(
            parameter=name,
            lessons=tuple(
                Lesson(
                    name=each.name,
                    value=_given(each.value, settings.environment.seed + place),
                    criterion=each.criterion,
                )
                for each in parameter.lessons
            ),
            source=parameter.source,
        )
        for place, (name, parameter) in enumerate(settings.environment_parameters.items())
        if isinstance(parameter, CurriculumParameter)
    )


def _given(parameter: SampledParameter, seed: int) -> ParameterValue:
    match parameter:
        case ConstantParameter(value):
            return value
        case UniformSampler(low, high, own):
            return UniformDraw(min_value=low, max_value=high, seed=seed if own < 0 else own)
        case GaussianSampler(mean, deviation, own):
            return GaussianDraw(mean=mean, st_dev=deviation, seed=seed if own < 0 else own)
        case MultiRangeUniformSampler(intervals, own):
            return MultiRangeDraw(intervals=intervals, seed=seed if own < 0 else own)
