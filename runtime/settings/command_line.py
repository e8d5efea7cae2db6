"""The flags. What they say becomes one more layer over the file, so that both meet the same checks."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from runtime.errors import UsageError
from runtime.settings.faults import Fault, FaultsError, Place, nearest, shown
from runtime.settings.nodes import ListNode, MapNode, Node, Scalar, map_of

PROGRAM: Final = "python -m runtime.train"


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag. section, key: what it overrides. value: how its value is called, "" for a switch."""

    name: str
    section: str
    key: str
    value: str
    help: str


_ENV, _ENGINE, _SAVED, _OURS = "env_settings", "engine_settings", "checkpoint_settings", "runtime"
ERA: Final = "of the era"
"""The section of flags that no file has a key for: they change what is read, or how often."""
FLAGS: Final = (
    Flag("--env", _ENV, "env_path", "PATH", "player to launch, or fake:SCENE[?key=value]; without it, the Editor"),
    Flag("--run-id", _SAVED, "run_id", "ID", "name of the run and its folder"),
    Flag("--results-dir", _SAVED, "results_dir", "DIR", "folder of all runs (results)"),
    Flag("--resume", _SAVED, "resume", "", "go on with the run of this id"),
    Flag("--force", _SAVED, "force", "", "delete what an earlier run of this id wrote"),
    Flag("--initialize-from", _SAVED, "initialize_from", "ID", "start with the weights of another run"),
    Flag("--inference", _SAVED, "inference", "", "act without learning; needs --resume or --initialize-from"),
    Flag("--deterministic", _OURS, "deterministic", "", "take the most likely action instead of drawing one"),
    Flag("--seed", _ENV, "seed", "N", "seed of the run; -1 draws one (-1)"),
    Flag("--num-envs", _ENV, "num_envs", "N", "players at the same time (1)"),
    Flag("--num-areas", _ENV, "num_areas", "N", "training areas in each player (1)"),
    Flag("--base-port", _ENV, "base_port", "PORT", "port of the first player (5005, or the next free block)"),
    Flag("--bind", _OURS, "bind", "ADDRESS", "serve players on this address too, not only on this computer"),
    Flag("--timeout-wait", _ENV, "timeout_wait", "S", "seconds a player may take to start (60)"),
    Flag("--step-timeout", _OURS, "step_timeout", "S", "seconds a player may take to answer (as --timeout-wait)"),
    Flag(
        "--message-bytes-max", _OURS, "message_bytes_max", "BYTES", "longest message of a player; -1: any length (-1)"
    ),
    Flag("--not-finite", _OURS, "not_finite", "MANNER", "NaN, infinity of players: refuse, or zero: count and go on"),
    Flag(
        "--port-argument", _OURS, "port_argument", "NAME", "what tells builds their port: mlagents-port, port or both"
    ),
    Flag("--max-lifetime-restarts", _ENV, "max_lifetime_restarts", "N", "restarts of one player; -1: any number (10)"),
    Flag("--restarts-rate-limit-n", _ENV, "restarts_rate_limit_n", "N", "of these within the period; -1: any (3)"),
    Flag("--restarts-rate-limit-period-s", _ENV, "restarts_rate_limit_period_s", "S", "the period (60)"),
    Flag("--workers", _OURS, "workers", "N", "worker processes that drive the players (one per player or core)"),
    Flag("--collection", _OURS, "collection", "MODE", "sync (reproducible) or async (players run on during updates)"),
    Flag("--actor-system", _OURS, "actor_system", "KIND", "processes, or inline: all actors in this process"),
    Flag("--record", _OURS, "record", "FILE", "write every message of the players to FILE (`fakeunity replay FILE`)"),
    Flag("--profile", _OURS, "profile", "", "tell where the time went: run_logs/profile.txt and .svg, a flame graph"),
    Flag("--stop-at", _OURS, "stop_at", "STEPS", "save and leave after this many agent steps"),
    Flag("--restart-envs-at", _OURS, "restart_envs_at", "STEPS", "restart all players after this many agent steps"),
    Flag("--no-graphics", _ENGINE, "no_graphics", "", "players draw nothing"),
    Flag("--no-graphics-monitor", _ENGINE, "no_graphics_monitor", "", "only the first player draws"),
    Flag("--width", _ENGINE, "width", "PIXELS", "of the player's window (84)"),
    Flag("--height", _ENGINE, "height", "PIXELS", "of the player's window (84)"),
    Flag("--quality-level", _ENGINE, "quality_level", "N", "of the player's graphics (5)"),
    Flag("--time-scale", _ENGINE, "time_scale", "X", "how fast time goes in the player (20)"),
    Flag("--target-frame-rate", _ENGINE, "target_frame_rate", "N", "of the player; -1: the engine's choice (-1)"),
    Flag("--capture-frame-rate", _ENGINE, "capture_frame_rate", "N", "of the player (60)"),
    Flag("--torch-device", "torch_settings", "device", "DEVICE", "accepted without effect: there is no PyTorch here"),
    Flag("--debug", "", "debug", "", "write more, let the players' output through"),
    Flag("--curriculum", ERA, "curriculum", "DIR", "folder of lesson files, BRAIN.json, as in ML-Agents 0.8 to 0.15"),
    Flag("--sampler", ERA, "sampler", "FILE", "YAML file of samplers with a resampling-interval, of the same time"),
    Flag("--lesson", _OURS, "lesson", "N", "lesson with which every curriculum begins (0, or the saved one)"),
    Flag("--keep-checkpoints", ERA, "keep_checkpoints", "N", "checkpoints kept, whatever CONFIG says"),
    Flag("--save-freq", ERA, "save_freq", "STEPS", "steps between checkpoints, whatever CONFIG says"),
    Flag("--slow", _OURS, "slow", "", "players run at their normal speed, not in training mode"),
    Flag(
        "--num-runs", ERA, "num_runs", "N", "this many runs one after another: ID-0 with the seed, ID-1 with seed + 1"
    ),
    Flag("--docker-target-name", ERA, "docker_target_name", "NAME", "paths that do not begin with / are below /NAME"),
)
ENV_ARGS: Final = "--env-args"
LOAD, TRAIN = "--load", "--train"
HIDDEN: Final = {
    LOAD: "--load is an old name of --resume",
    TRAIN: "--train has no effect: training is the default",
    "--torch": "--torch has no effect: this trainer uses TensorFlow",
    "--tensorflow": "--tensorflow has no effect: this trainer always uses TensorFlow",
}


@dataclass(frozen=True, slots=True)
class CommandLine:
    """What was typed. config: path of the file, None without one. layer: the values of flags, by section and key.

    era: those of the flags in `ERA`, by key. old: names from `HIDDEN` that were typed.
    """

    config: str | None
    layer: MapNode
    era: MapNode
    old: frozenset[str]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"command line: {message}; {PROGRAM} --help lists the flags")


def parse_command_line(argv: Sequence[str], version: str) -> CommandLine:
    """The flags of `argv`, without the program's name.

    Raises UsageError for what is no flag, with the nearest one. `--help` and `--version` print and raise SystemExit(0).
    """
    words, env_args = list(argv), None
    if ENV_ARGS in words:
        # The rest of the line is the player's, even where it looks like a flag of ours.
        cut = words.index(ENV_ARGS)
        words, env_args = words[:cut], words[cut + 1 :]
    found, rest = _parser(version).parse_known_args(words)
    if rest:
        raise FaultsError(_unknown(word) for word in rest)
    given: dict[str, object] = {name: value for name, value in vars(found).items() if value is not None}
    config = given.pop("config", None)
    old = frozenset(name for name in HIDDEN if given.pop(name, False))
    sections: dict[str, list[tuple[str, Node]]] = {}
    for flag in FLAGS:
        if flag.name in given and given[flag.name] is not False:
            text = str(given[flag.name]) if flag.value else "true"
            # The empty text of `--env ""` is a text, and not "nothing given".
            node = Scalar(Place(None, 0, flag.name), text, is_quoted=not text)
            sections.setdefault(flag.section, []).append((flag.key, node))
    if LOAD in old:
        sections.setdefault(_SAVED, []).append(("resume", Scalar(Place(None, 0, LOAD), "true")))
    if env_args is not None:
        place = Place(None, 0, ENV_ARGS)
        items = tuple(Scalar(place, word, is_quoted=True) for word in env_args)
        sections.setdefault(_ENV, []).append(("env_args", ListNode(place, items)))
    top, era = sections.pop("", []), sections.pop(ERA, [])
    layer = map_of([*top, *((name, map_of(entries)) for name, entries in sections.items())])
    return CommandLine(None if config is None else str(config), layer, map_of(era), old)


def _parser(version: str) -> _Parser:
    parser = _Parser(
        prog=PROGRAM,
        description="Train the behaviors of a Unity player. Without CONFIG and --env: the bundled scene `basic`.",
        epilog="Flags win over CONFIG, CONFIG wins over the defaults in brackets.",
        allow_abbrev=False,
    )
    parser.add_argument("config", nargs="?", metavar="CONFIG", help="YAML file as for ML-Agents, of any version")
    parser.add_argument("--version", action="version", version=f"%(prog)s {version}")
    for flag in FLAGS:
        if flag.value:
            parser.add_argument(flag.name, dest=flag.name, metavar=flag.value, help=flag.help)
        else:
            parser.add_argument(flag.name, dest=flag.name, action="store_true", help=flag.help)
    # Only for the help: the words after it never come here.
    parser.add_argument(ENV_ARGS, nargs="...", metavar="ARG", help="everything after this flag goes to the player")
    for name in HIDDEN:
        parser.add_argument(name, dest=name, action="store_true", help=argparse.SUPPRESS)
    return parser


def _unknown(word: str) -> Fault:
    name = word.partition("=")[0]
    if not name.startswith("-"):
        return Fault(place=Place(None, 0, ""), problem=f"one CONFIG is taken; {shown(word)!r} is one word too many")
    known = [flag.removeprefix("--") for flag in (*(flag.name for flag in FLAGS), ENV_ARGS, "--help", "--version")]
    close = nearest(name.lstrip("-").replace("_", "-"), known)
    place = Place(None, 0, shown(name))
    if close is None:
        hint = f"those that --help lists; flags for the player go after {ENV_ARGS}"
        return Fault(place=place, problem="unknown flag", allowed=hint)
    return Fault(place=place, problem="unknown flag", nearest=f"--{close}")
