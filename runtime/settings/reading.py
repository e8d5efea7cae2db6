"""What the flags of ML-Agents 0.8 to 0.15 change: files that are read, and settings of all behaviors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from runtime.learner import BehaviorSettings
from runtime.settings import kinds
from runtime.settings.command_line import HIDDEN, LOAD, TRAIN, CommandLine
from runtime.settings.faults import COMMAND_LINE, Fault, Findings, Place
from runtime.settings.formats import CONVERT, ERA_FORMAT, Format
from runtime.settings.model import FAKE_SCHEME, Editor, RunSettings
from runtime.settings.nodes import MapNode, Scalar, map_of
from runtime.settings.sections import Section


@dataclass(frozen=True, slots=True, kw_only=True)
class EraFlags:
    """The flags that no file has a key for; None where one was not given. docker: the folder before relative paths."""

    curriculum: str | None = None
    sampler: str | None = None
    keep_checkpoints: int | None = None
    save_freq: int | None = None
    num_runs: int = 1
    docker: str | None = None

    def path(self, written: str) -> str:
        """The path that is meant: below the Docker target if there is one."""
        return written if self.docker is None else str(Path("/") / self.docker / written)


def read_era_flags(command: CommandLine, findings: Findings) -> EraFlags:
    """The flags, checked."""
    section = Section([command.era], findings)
    positive, path = kinds.optional(kinds.integer(at_least=1)), kinds.optional(kinds.text("a path"))
    docker = section.take("docker_target_name", path, None)
    flags = EraFlags(docker=docker.strip("/") if docker else None)
    curriculum, sampler = section.take("curriculum", path, None), section.take("sampler", path, None)
    return replace(
        flags,
        curriculum=curriculum and flags.path(curriculum),
        sampler=sampler and flags.path(sampler),
        keep_checkpoints=section.take("keep_checkpoints", positive, None),
        save_freq=section.take("save_freq", positive, None),
        num_runs=section.take("num_runs", kinds.integer(at_least=1, at_most=1000), 1),
    )


def old_words(command: CommandLine, form: Format, findings: Findings) -> CommandLine:
    """The command line with what `--train` and `--load` mean beside a file of this format; what is odd is noted.

    In files of that time nothing is learned without `--train`: `--load` alone is inference. Neither of them would play
    with random weights for ever; that is not what anybody asks for, so it trains, and says so.
    """
    for word in sorted(command.old):
        if form == "today" or word not in {LOAD, TRAIN}:
            findings.note(HIDDEN[word])
    if form == "today":
        return command
    found = f"{command.config}: found {ERA_FORMAT}: steps are env steps, and numbers of players that are not finite "
    findings.note(f"{found}become 0. `{CONVERT} {command.config} NEW` writes the same in today's format")
    if TRAIN not in command.old and LOAD in command.old:
        return with_flag(command, "inference", Place(None, 0, LOAD))
    if TRAIN not in command.old:
        findings.note("--train was not given: such a run once played with untrained weights for ever; here it trains")
    return command


def with_flag(command: CommandLine, key: str, place: Place) -> CommandLine:
    """The command line with one more switch of `checkpoint_settings`."""
    layer = command.layer
    block = layer.entries.get("checkpoint_settings")
    entries = block.entries.items() if isinstance(block, MapNode) else ()
    saved = map_of([*entries, (key, Scalar(place, "true"))])
    return replace(command, layer=map_of([*layer.entries.items(), ("checkpoint_settings", saved)]))


def below_docker(command: CommandLine, flags: EraFlags) -> CommandLine:
    """The command line with player and results below the Docker target."""
    if flags.docker is None:
        return command
    layer = dict(command.layer.entries)
    for section, key, default in (
        ("env_settings", "env_path", None),
        ("checkpoint_settings", "results_dir", "results"),
    ):
        block = layer.get(section)
        entries = dict(block.entries) if isinstance(block, MapNode) else {}
        node = entries.get(key)
        text = node.text if isinstance(node, Scalar) else default
        if text is not None and not text.startswith(FAKE_SCHEME):
            place = node.place if node is not None else COMMAND_LINE
            entries[key] = Scalar(place, flags.path(text), is_quoted=True)
            layer[section] = map_of(entries.items())
    return replace(command, layer=map_of(layer.items()))


def for_all_behaviors(settings: RunSettings, change: Callable[[BehaviorSettings], BehaviorSettings]) -> RunSettings:
    """The same settings with every behavior changed."""
    behaviors: Mapping[str, BehaviorSettings] = {name: change(own) for name, own in settings.behaviors.items()}
    default = None if settings.default_settings is None else change(settings.default_settings)
    return replace(settings, behaviors=behaviors, default_settings=default)


def with_era_flags(settings: RunSettings, flags: EraFlags, findings: Findings) -> RunSettings:
    """The settings with what these flags say of every behavior, and of the number of runs."""

    def changed(own: BehaviorSettings) -> BehaviorSettings:
        if flags.keep_checkpoints is not None:
            own = replace(own, keep_checkpoints=flags.keep_checkpoints)
        if flags.save_freq is not None:
            own = replace(own, checkpoint_interval=flags.save_freq, even_checkpoints=False)
        return own

    if flags.num_runs > 1:
        place = Place(None, 0, "--num-runs")
        if isinstance(settings.environment.target, Editor):
            problem = f"{flags.num_runs} runs need a player to launch, and the Editor is not launched"
            findings.add(Fault(place=place, problem=problem, allowed="1, or any number with --env"))
        if settings.record is not None:
            problem = f"{flags.num_runs} runs cannot be recorded in one file"
            findings.add(Fault(place=place, problem=problem, allowed="1 with --record"))
    return replace(for_all_behaviors(settings, changed), num_runs=flags.num_runs)
