"""Reads the blocks beside the behaviors: environment, engine, checkpoints, and what only this trainer has."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Literal

from runtime.errors import UsageError
from runtime.settings import kinds
from runtime.settings.faults import COMMAND_LINE, Fault, Findings, nearest
from runtime.settings.model import (
    BASE_PORT,
    EDITOR_PORT,
    FAKE_SCHEME,
    ActorSystemKind,
    CheckpointSettings,
    CollectionMode,
    Editor,
    EngineSettings,
    EnvironmentSettings,
    EnvTarget,
    Executable,
    FakeScene,
    NotFinite,
    PortArgument,
    RestartLimits,
)
from runtime.settings.sections import Section

COLLECTIONS: Final[tuple[CollectionMode, ...]] = ("sync", "async")
ACTOR_SYSTEMS: Final[tuple[ActorSystemKind, ...]] = ("processes", "inline")
NOT_FINITE: Final[tuple[NotFinite, ...]] = ("refuse", "zero")
PORT_ARGUMENTS: Final[tuple[PortArgument, ...]] = ("both", "mlagents-port", "port")
STEPS: Final[tuple[Literal["agent", "env"], ...]] = ("agent", "env")
PORT_MAX: Final = 65_535
SEED_MAX: Final = 2**31 - 1
DRAWN_SEEDS: Final = 10_000  # a drawn seed is below this, as in ML-Agents: short enough to be typed again


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the settings depend on besides file and flags.

    scenes: names of the bundled ones. rng: draws a seed when none is given. cores: that may be used.
    check_scene_url: raises UsageError or ValueError, with a sentence for the user, for a bad `fake:` URL.
    """

    scenes: frozenset[str]
    rng: random.Random
    cores: int
    check_scene_url: Callable[[str], object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeBlock:
    """The keys of `runtime:`, which ML-Agents does not have.

    steps: what max_steps, summary_freq and checkpoint_interval count; `env` as in files of ML-Agents 0.8 to 0.15.
    """

    actor_system: ActorSystemKind
    collection: CollectionMode
    workers: int | None
    step_timeout_s: float | None
    stop_at: int | None
    restart_envs_at: int | None
    bind: str | None
    message_bytes_max: int
    not_finite: NotFinite
    port_argument: PortArgument
    deterministic: bool
    record: str | None
    profile: bool
    is_base_port_fixed: bool
    steps: Literal["agent", "env"]
    slow: bool
    lesson: int | None
    resampling_interval: int | None


def read_runtime(block: Section, findings: Findings) -> RuntimeBlock:
    """The block `runtime:`."""
    steps = kinds.optional(kinds.integer(at_least=1))
    read = RuntimeBlock(
        actor_system=block.take("actor_system", kinds.choice(ACTOR_SYSTEMS), "processes"),
        collection=block.take("collection", kinds.choice(COLLECTIONS), "sync"),
        workers=block.take("workers", steps, None),
        step_timeout_s=block.take("step_timeout", kinds.optional(kinds.number(above=0)), None),
        stop_at=block.take("stop_at", steps, None),
        restart_envs_at=block.take("restart_envs_at", steps, None),
        bind=block.take("bind", kinds.optional(kinds.address()), None),
        message_bytes_max=block.take("message_bytes_max", kinds.integer(at_least=1, also=-1), -1),
        not_finite=block.take("not_finite", kinds.choice(NOT_FINITE), "refuse"),
        port_argument=block.take("port_argument", kinds.choice(PORT_ARGUMENTS), "both"),
        deterministic=block.take("deterministic", kinds.boolean(), False),
        record=block.take("record", kinds.optional(kinds.text("a file")), None),
        profile=block.take("profile", kinds.boolean(), False),
        is_base_port_fixed=block.take("base_port_fixed", kinds.boolean(), True),
        steps=block.take("steps", kinds.choice(STEPS), "agent"),
        slow=block.take("slow", kinds.boolean(), False),
        lesson=block.take("lesson", kinds.optional(kinds.integer(at_least=0, at_most=1_000_000)), None),
        resampling_interval=block.take("resampling_interval", steps, None),
    )
    block.ignore("player_seeds")  # written for people to read; a new run derives its own
    block.close()
    if read.bind is not None:
        findings.note(
            f"players are served on {read.bind}, not only on this computer; whoever reaches the port can connect"
        )
    return read


def read_environment(
    root: Section, ours: RuntimeBlock, around: Surroundings, findings: Findings
) -> EnvironmentSettings:
    """The block `env_settings:`, and the two keys about graphics that stand in `engine_settings:`."""
    block, engine = root.child("env_settings"), root.child("engine_settings")
    target = read_target(block, around, findings)
    timeout_wait_s = block.take("timeout_wait", kinds.number(above=0), 60.0)
    seed = block.take("seed", kinds.integer(at_least=0, at_most=SEED_MAX, also=-1), -1)
    read = EnvironmentSettings(
        target=target,
        env_args=block.take("env_args", kinds.texts(), ()),
        num_envs=block.take("num_envs", kinds.integer(at_least=1, at_most=1024), 1),
        num_areas=block.take("num_areas", kinds.integer(at_least=1), 1),
        timeout_wait_s=timeout_wait_s,
        step_timeout_s=ours.step_timeout_s or timeout_wait_s,
        seed=around.rng.randrange(DRAWN_SEEDS) if seed == -1 else seed,
        seed_given=seed != -1,
        restarts=_read_limits(block),
        bind=ours.bind,
        message_bytes_max=ours.message_bytes_max,
        not_finite=ours.not_finite,
        port_argument=ours.port_argument,
        no_graphics=engine.take("no_graphics", kinds.boolean(), False),
        no_graphics_monitor=engine.take("no_graphics_monitor", kinds.boolean(), False),
    )
    read = _with_ports(read, block, ours)
    block.close()
    _check_environment(read, block, findings)
    return read


def read_target(block: Section, around: Surroundings, findings: Findings) -> EnvTarget:
    """What `env_path` names: the Editor, a scene of the bundled player, or a program."""
    name = block.take("env_path", kinds.optional(kinds.text("a path, or fake:SCENE")), None)
    if name is None:
        return Editor()
    if not name.startswith(FAKE_SCHEME):
        return Executable(name)
    target = FakeScene(name)
    place = block.place("env_path") or COMMAND_LINE
    if target.scene not in around.scenes:
        known = ", ".join(sorted(around.scenes))
        close = nearest(target.scene, around.scenes)
        findings.add(
            Fault(place=place, problem="is no bundled scene", value=target.scene, allowed=known, nearest=close)
        )
    elif around.check_scene_url is not None:
        try:
            around.check_scene_url(name)
        except (UsageError, ValueError) as error:
            findings.add(Fault(place=place, problem=str(error)))
    return target


def _read_limits(block: Section) -> RestartLimits:
    limit, plain = kinds.integer(at_least=0, also=-1), RestartLimits()
    return RestartLimits(
        lifetime=block.take("max_lifetime_restarts", limit, plain.lifetime),
        rate_n=block.take("restarts_rate_limit_n", limit, plain.rate_n),
        rate_period_s=block.take("restarts_rate_limit_period_s", kinds.number(above=0), plain.rate_period_s),
    )


def _with_ports(read: EnvironmentSettings, block: Section, ours: RuntimeBlock) -> EnvironmentSettings:
    """The ports. The Editor calls 5004; files written by ML-Agents name 5005 there too, which its Editor never uses."""
    is_editor = isinstance(read.target, Editor)
    default = EDITOR_PORT if is_editor else BASE_PORT
    port = block.take("base_port", kinds.integer(at_least=1, at_most=PORT_MAX), default)
    place = block.place("base_port")
    is_on_command_line = place is not None and place.file is None
    is_given = place is not None and (is_on_command_line or ours.is_base_port_fixed)
    if not is_given or (is_editor and port == BASE_PORT and not is_on_command_line):
        port = default
    return replace(read, base_port=port, is_base_port_fixed=is_given or is_editor)


def _check_environment(read: EnvironmentSettings, block: Section, findings: Findings) -> None:
    place = block.place("num_envs") or block.place("base_port") or COMMAND_LINE
    if isinstance(read.target, Editor) and read.num_envs > 1:
        problem = f"{read.num_envs} environments need a player to launch, and there is only one Editor"
        findings.add(Fault(place=place, problem=problem, allowed="1, or any number with --env"))
    if read.base_port + read.num_envs - 1 > PORT_MAX:
        problem = f"{read.num_envs} environments from port {read.base_port} on need ports above {PORT_MAX}"
        findings.add(Fault(place=block.place("base_port") or place, problem=problem))


def read_engine(block: Section, *, is_slow: bool) -> EngineSettings:
    """The block `engine_settings:`; its two keys about graphics are read with the environment.

    is_slow: time goes as fast as for people, unless another speed than the usual one of training is asked for.
    """
    plain, positive = EngineSettings(), kinds.integer(at_least=1, at_most=2**31 - 1)
    block.ignore("no_graphics")
    block.ignore("no_graphics_monitor")
    read = EngineSettings(
        width=block.take("width", positive, plain.width),
        height=block.take("height", positive, plain.height),
        quality_level=block.take("quality_level", kinds.integer(at_least=0, at_most=100), plain.quality_level),
        time_scale=block.take("time_scale", kinds.number(above=0), plain.time_scale),
        target_frame_rate=block.take(
            "target_frame_rate",
            kinds.integer(at_least=1, at_most=2**31 - 1, also=-1),
            plain.target_frame_rate,
        ),
        capture_frame_rate=block.take(
            "capture_frame_rate",
            kinds.integer(at_least=0, at_most=2**31 - 1),
            plain.capture_frame_rate,
        ),
    )
    block.close()
    return replace(read, time_scale=1.0) if is_slow and read.time_scale == plain.time_scale else read


def read_checkpoints(block: Section, default_run_id: str, findings: Findings) -> CheckpointSettings:
    """The block `checkpoint_settings:`."""
    optional_id = kinds.optional(kinds.run_id())
    named = block.take("run_id", optional_id, None)
    load_model = block.take("load_model", kinds.boolean(), False)
    if block.take("train_model", kinds.boolean(), False):
        findings.note(f"{block.place('train_model')}: train_model has no effect: training is the default")
    read = CheckpointSettings(
        run_id=named or default_run_id,
        run_id_given=named is not None,
        results_dir=block.take("results_dir", kinds.text("a folder"), "results"),
        resume=block.take("resume", kinds.boolean(), False) or load_model,
        force=block.take("force", kinds.boolean(), False),
        initialize_from=block.take("initialize_from", optional_id, None),
        inference=block.take("inference", kinds.boolean(), False),
    )
    block.close()
    if read.resume and read.force:
        problem = "resume goes on with a run and force deletes it"
        findings.add(Fault(place=block.place("force") or COMMAND_LINE, problem=problem, allowed="one of the two"))
    if read.inference and not (read.resume or read.initialize_from):
        problem = "inference needs a trained model; add --resume or --initialize-from RUN_ID"
        findings.add(Fault(place=block.place("inference") or COMMAND_LINE, problem=problem))
    if read.resume and read.initialize_from:
        findings.note("initialize_from has no effect when a run is resumed: it has weights of its own")
        read = replace(read, initialize_from=None)
    return read


def read_torch(block: Section, findings: Findings) -> None:
    """The block `torch_settings:`, which is for another library."""
    if block.take("device", kinds.optional(kinds.text("a device")), None) is not None:
        findings.note(f"{block.place('device')}: has no effect: this trainer uses TensorFlow")
    block.close()
