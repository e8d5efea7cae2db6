"""From command line and file to `RunSettings`: every fault at once, and nothing launched before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from runtime.learner import BehaviorSettings
from runtime.settings import kinds
from runtime.settings.behaviors import read_behaviors
from runtime.settings.blocks import (
    Surroundings,
    read_checkpoints,
    read_engine,
    read_environment,
    read_runtime,
    read_torch,
)
from runtime.settings.bundled import bundled_configuration
from runtime.settings.command_line import CommandLine, parse_command_line
from runtime.settings.era import EraBehaviors, translate
from runtime.settings.faults import Fault, Findings, Place
from runtime.settings.formats import format_of
from runtime.settings.lessons import check_lessons, read_lesson_folder, with_curricula
from runtime.settings.model import FAKE_SCHEME, FakeScene, RunSettings
from runtime.settings.nodes import MapNode, Scalar, empty_map, map_of
from runtime.settings.parameters import read_parameters
from runtime.settings.reading import below_docker, for_all_behaviors, old_words, read_era_flags, with_era_flags
from runtime.settings.samplers import read_sampler_file, with_samplers, without_idle_interval
from runtime.settings.sections import Section
from runtime.settings.yaml_reader import read_file

CONFIG_ADVICE = "check the path, or leave CONFIG out to train without one"
DEFAULT_SCENE = "basic"
DEFAULT_RUN_ID = "ppo"


def parse_run_settings(
    argv: Sequence[str], around: Surroundings, *, version: str, file: MapNode | None = None
) -> RunSettings:
    """The settings that `argv` (without the program's name) asks for.

    Raises ConfigError with all faults of file and flags, UsageError for unknown flags. `--help` and `--version` print
    and raise SystemExit(0). file: what CONFIG holds, if it was read already. Neither the environment's variables nor
    earlier calls have any influence.
    """
    command, findings = parse_command_line(argv, version), Findings()
    flags = read_era_flags(command, findings)
    era: EraBehaviors | None = None
    if command.config is not None:
        config, scene = command.config, None
        file = read_file(Path(flags.path(config)), advice=CONFIG_ADVICE) if file is None else file
        form = format_of(file)
        command = old_words(command, form, findings)
        if form == "era":
            era, file = translate(file, findings), as_in_era()
        else:
            _check_configuration(file, config)
    else:
        file, scene, command = _without_config(command, around)
        command = old_words(command, "today", findings)
    command = below_docker(command, flags)
    if flags.sampler is not None:
        command = with_samplers(command, read_sampler_file(Path(flags.sampler), findings))
    root = Section([file, command.layer], findings)
    settings = _read(root, around, findings, scene, era=era)
    if flags.curriculum is not None:
        curricula = read_lesson_folder(Path(flags.curriculum), findings)
        settings = with_curricula(settings, curricula, root.child("environment_parameters"), findings)
    settings = without_idle_interval(settings, root.child("runtime").place("resampling_interval"), findings)
    check_lessons(settings, findings)
    settings = with_era_flags(settings, flags, findings)
    findings.raise_if_any()
    if command.config is None and scene is None:
        settings = replace(settings, default_settings=BehaviorSettings())
    settings = replace(settings, config=command.config, bundled_scene=scene, warnings=findings.warnings)
    return _with_deterministic(settings) if settings.deterministic else settings


def as_in_era() -> MapNode:
    """What a file of ML-Agents 0.8 to 0.15 says without a word: which steps are meant, and what becomes of NaN."""
    place = Place(None, 0, "")
    return map_of([("runtime", map_of([("steps", Scalar(place, "env")), ("not_finite", Scalar(place, "zero"))]))])


def _check_configuration(file: MapNode, path: str) -> None:
    named = [file.entries.get(key) for key in ("behaviors", "default_settings")]
    if all(node is None or (isinstance(node, Scalar) and node.is_null) for node in named):
        findings = Findings()
        problem = "there is neither `behaviors:` nor `default_settings:`, so nothing could be trained"
        findings.add(Fault(place=Place(Path(path).name, 0, ""), problem=problem))
        findings.raise_if_any()


def _without_config(command: CommandLine, around: Surroundings) -> tuple[MapNode, str | None, CommandLine]:
    """The bundled configuration of the scene that is asked for, else an empty one; the scene; the flags."""
    env_block = command.layer.entries.get("env_settings", empty_map())
    assert isinstance(env_block, MapNode)
    env = env_block.entries.get("env_path")
    if env is None:
        node = Scalar(Place(None, 0, "--env"), FAKE_SCHEME + DEFAULT_SCENE)
        block = map_of([*env_block.entries.items(), ("env_path", node)])
        layer = map_of([*command.layer.entries.items(), ("env_settings", block)])
        command, env = replace(command, layer=layer), node
    assert isinstance(env, Scalar)
    if not env.text.startswith(FAKE_SCHEME):
        return empty_map(), None, command
    scene = FakeScene(env.text).scene
    file = bundled_configuration(scene) if scene in around.scenes else None
    return (empty_map(), None, command) if file is None else (file, scene, command)


def _read(
    root: Section, around: Surroundings, findings: Findings, scene: str | None, *, era: EraBehaviors | None
) -> RunSettings:
    behaviors, default_settings = read_behaviors(root, findings) if era is None else read_era(era, findings)
    ours = read_runtime(root.child("runtime"), findings)
    environment = read_environment(root, ours, around, findings)
    read_torch(root.child("torch_settings"), findings)
    workers = ours.workers
    if workers is not None and workers > environment.num_envs:
        findings.note(
            f"{workers} workers were asked for; each drives at least one player, so {environment.num_envs} are started",
        )
    settings = RunSettings(
        behaviors=behaviors,
        default_settings=default_settings,
        environment=environment,
        engine=read_engine(root.child("engine_settings"), is_slow=ours.slow),
        checkpoints=read_checkpoints(root.child("checkpoint_settings"), scene or DEFAULT_RUN_ID, findings),
        environment_parameters=read_parameters(root, findings),
        collection=ours.collection,
        workers=min(workers or around.cores, environment.num_envs),
        actor_system=ours.actor_system,
        stop_at=ours.stop_at,
        restart_envs_at=ours.restart_envs_at,
        deterministic=ours.deterministic,
        record=ours.record,
        profile=ours.profile,
        debug=root.take("debug", kinds.boolean(), False),
        is_slow=ours.slow,
        lesson=ours.lesson,
        resampling_interval=ours.resampling_interval,
    )
    root.close()
    counts_env_steps = ours.steps == "env"
    return for_all_behaviors(settings, lambda own: replace(own, counts_env_steps=counts_env_steps))


def read_era(era: EraBehaviors, findings: Findings) -> tuple[dict[str, BehaviorSettings], BehaviorSettings | None]:
    """The settings by brain, and those of all other brains. Each block is complete: none lies over another."""
    behaviors, _ = read_behaviors(Section([map_of([("behaviors", era.behaviors)])], findings), findings)
    if era.default is None:
        return behaviors, None
    _, default = read_behaviors(Section([map_of([("default_settings", era.default)])], findings), findings)
    return behaviors, default


def _with_deterministic(settings: RunSettings) -> RunSettings:
    """The same with every network deterministic, as the flag asks."""

    def changed(behavior: BehaviorSettings) -> BehaviorSettings:
        return replace(behavior, network_settings=replace(behavior.network_settings, deterministic=True))

    return for_all_behaviors(settings, changed)
