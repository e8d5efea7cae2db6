"""Writes resolved settings as YAML: the `configuration.yaml` of a run, which can be given as CONFIG again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final, TypeAlias

import yaml

from runtime.learner import BehaviorSettings
from runtime.settings import kinds
from runtime.settings.blocks import SEED_MAX
from runtime.settings.cloning import CLONING_TRAINERS, cloning_keys, hyperparameter_keys
from runtime.settings.faults import FaultsError, Findings
from runtime.settings.model import (
    ConstantParameter,
    CurriculumParameter,
    Editor,
    EnvTarget,
    Executable,
    FakeScene,
    GaussianSampler,
    LessonSettings,
    MultiRangeUniformSampler,
    ParameterSettings,
    RunSettings,
    UniformSampler,
)
from runtime.settings.nodes import ListNode, MapNode, Scalar
from runtime.settings.sections import Section
from runtime.settings.yaml_reader import read_file

Plain: TypeAlias = "bool | int | float | str | Sequence[Plain] | Mapping[str, Plain] | None"


BREAKS: Final = frozenset("\n\r\x85\u2028\u2029")


def to_yaml(settings: RunSettings, *, player_seeds: Mapping[int, Sequence[int]] | None = None) -> str:
    """All options of a run with ML-Agents' keys, ours under `runtime:`.

    player_seeds: what each environment's players were given, by env id, in the order of time. `force` is written as
    false: a file that is used again must not delete what it led to.
    """
    env, saved, engine = settings.environment, settings.checkpoints, settings.engine
    default = settings.default_settings
    content: dict[str, Plain] = {
        "default_settings": None if default is None else _behavior(default),
        "behaviors": _behaviors(settings),
        "env_settings": {
            "env_path": _env_path(env.target),
            "env_args": list(env.env_args) or None,
            "base_port": env.base_port,
            "num_envs": env.num_envs,
            "num_areas": env.num_areas,
            "timeout_wait": env.timeout_wait_s,
            "seed": env.seed,
            "max_lifetime_restarts": env.restarts.lifetime,
            "restarts_rate_limit_n": env.restarts.rate_n,
            "restarts_rate_limit_period_s": env.restarts.rate_period_s,
        },
        "engine_settings": {
            **asdict(engine),
            "no_graphics": env.no_graphics,
            "no_graphics_monitor": env.no_graphics_monitor,
        },
        "environment_parameters": {
            name: _parameter(parameter) for name, parameter in settings.environment_parameters.items()
        }
        or None,
        "checkpoint_settings": {
            "run_id": saved.run_id,
            "initialize_from": saved.initialize_from,
            "load_model": False,
            "resume": saved.resume,
            "force": False,
            "train_model": False,
            "inference": saved.inference,
            "results_dir": saved.results_dir,
        },
        "torch_settings": {"device": None},
        "debug": settings.debug,
        "runtime": _ours(settings, player_seeds or {}),
    }
    return _dumped(content)


def to_converted_yaml(settings: RunSettings) -> str:
    """What a file of ML-Agents 0.8 to 0.15 asked for, in today's format."""
    default = None if settings.default_settings is None else _behavior(settings.default_settings)
    parameters = {name: _parameter(parameter) for name, parameter in settings.environment_parameters.items()}
    ours: dict[str, Plain] = {"steps": "env", "not_finite": settings.environment.not_finite}
    if settings.resampling_interval is not None:
        ours["resampling_interval"] = settings.resampling_interval
    content: dict[str, Plain] = {} if default is None else {"default_settings": default}
    content["behaviors"] = _behaviors(settings)
    if parameters:
        content["environment_parameters"] = parameters
    return _dumped({**content, "runtime": ours})


def recorded_seed(configuration: Path) -> int | None:
    """The seed in the `configuration.yaml` of an earlier run; None when the file or the seed is missing or damaged.

    A run that is resumed without `--seed` goes on with it, because the players' seeds follow from it.
    """
    findings = Findings()
    try:
        root = Section([read_file(configuration)], findings)
    except FaultsError:
        return None
    seed = root.child("env_settings").take("seed", kinds.optional(kinds.integer(at_least=0, at_most=SEED_MAX)), None)
    return None if findings.faults else seed


def recorded_player_seeds(configuration: Path) -> dict[int, list[int]]:
    """What the players of an earlier part of the run were given, by env id; none where the file does not say."""
    try:
        ours = read_file(configuration).entries.get("runtime")
    except FaultsError:
        return {}
    written = ours.entries.get("player_seeds") if isinstance(ours, MapNode) else None
    found: dict[int, list[int]] = {}
    for env_id, node in written.entries.items() if isinstance(written, MapNode) else ():
        texts = [each.text for each in node.items if isinstance(each, Scalar)] if isinstance(node, ListNode) else []
        if env_id.isdecimal() and all(text.isdecimal() for text in texts):
            found[int(env_id)] = [int(text) for text in texts]
    return found


def _ours(settings: RunSettings, player_seeds: Mapping[int, Sequence[int]]) -> dict[str, Plain]:
    return {
        "actor_system": settings.actor_system,
        "collection": settings.collection,
        "workers": settings.workers,
        "step_timeout": settings.environment.step_timeout_s,
        "stop_at": settings.stop_at,
        "restart_envs_at": settings.restart_envs_at,
        "bind": settings.environment.bind,
        "message_bytes_max": settings.environment.message_bytes_max,
        "not_finite": settings.environment.not_finite,
        "port_argument": settings.environment.port_argument,
        "base_port_fixed": settings.environment.is_base_port_fixed,
        "deterministic": settings.deterministic,
        "record": settings.record,
        "profile": settings.profile,
        "steps": "env" if _counts_env_steps(settings) else "agent",
        "slow": settings.is_slow,
        "lesson": settings.lesson,
        "resampling_interval": settings.resampling_interval,
        "player_seeds": {str(env_id): list(seeds) for env_id, seeds in sorted(player_seeds.items())},
    }


def _behaviors(settings: RunSettings) -> dict[str, Plain]:
    """By name. The blocks lie over `default_settings:`: a reward signal of there that a behavior has not is null."""
    written = {name: _behavior(behavior) for name, behavior in settings.behaviors.items()}
    below = settings.default_settings.reward_signals if settings.default_settings is not None else {}
    for block in written.values():
        signals = block["reward_signals"]
        assert isinstance(signals, dict)
        signals.update({key: None for key in below if key not in signals})
    return dict(written)


def _counts_env_steps(settings: RunSettings) -> bool:
    known = [*settings.behaviors.values(), settings.default_settings]
    return any(each is not None and each.counts_env_steps for each in known)


def _behavior(settings: BehaviorSettings) -> dict[str, Plain]:
    content: dict[str, Plain] = asdict(settings)
    del content["counts_env_steps"]  # of the whole run: `runtime: steps:`
    network = content["network_settings"]
    assert isinstance(network, dict)
    cloning, hyper = content["behavioral_cloning"], content["hyperparameters"]
    assert isinstance(hyper, dict)
    if isinstance(cloning, dict):
        content["behavioral_cloning"] = {key: cloning[key] for key in cloning_keys(settings.trainer_type)}
    if settings.trainer_type in CLONING_TRAINERS:
        content["hyperparameters"] = {key: hyper[key] for key in hyperparameter_keys(settings.trainer_type)}
    return {**content, "self_play": None}


def _env_path(target: EnvTarget) -> str | None:
    match target:
        case Editor():
            return None
        case FakeScene(url):
            return url
        case Executable(path):
            return path


def _parameter(parameter: ParameterSettings) -> Plain:
    match parameter:
        case ConstantParameter(value):
            return value
        case CurriculumParameter(lessons):
            return {"curriculum": [_lesson(each) for each in lessons]}
        case UniformSampler():
            name = "uniform"
        case GaussianSampler():
            name = "gaussian"
        case MultiRangeUniformSampler(intervals, seed):
            pairs = [list(pair) for pair in intervals]
            return {"sampler_type": "multirangeuniform", "sampler_parameters": {"intervals": pairs, "seed": seed}}
    return {"sampler_type": name, "sampler_parameters": asdict(parameter)}


def _lesson(lesson: LessonSettings) -> dict[str, Plain]:
    written: dict[str, Plain] = {"name": lesson.name, "value": _parameter(lesson.value)}
    if lesson.criterion is not None:
        written["completion_criteria"] = asdict(lesson.criterion)
    return written


class _Dumper(yaml.SafeDumper):
    """Writes texts so that they are read as they were.

    To YAML the characters of BREAKS end a line: in quotes that are not double ones, some are read as a space.
    """


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if BREAKS & set(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def _dumped(content: object) -> str:
    text: str = yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return text
