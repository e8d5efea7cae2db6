"""`python -m runtime.convert OLD NEW`: a configuration of ML-Agents 0.8 to 0.15 in today's format."""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from runtime.errors import ConfigError, InternalError, StorageError, TrainingError, UsageError
from runtime.interrupts import INTERRUPTED, raise_again
from runtime.results import write_atomically
from runtime.settings import RunSettings, Surroundings, parse_run_settings
from runtime.settings.formats import CONVERT, TODAY_FORMAT, format_of
from runtime.settings.writing import to_converted_yaml
from runtime.settings.yaml_reader import read_file, read_yaml

HEADER = """\
# Converted from {name}. `runtime: steps: env`: max_steps, summary_freq and checkpoint_interval count env steps, as they
# did there. `not_finite: zero`: NaN and infinities of players become 0, and are counted.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Convert, and return the exit code: 0 written, 2 wrong usage or file, 5 NEW cannot be written, 130 interrupted."""
    options = _parser().parse_args(argv)
    try:
        before = _read_old(options.old, curriculum=options.curriculum, sampler=options.sampler)
        for warning in before.warnings:
            if CONVERT not in warning:  # that advice has been followed
                print(f"[WARNING] {warning}", file=sys.stderr)
        text = _written(before)
        raise_again()  # a file that was begun is removed
        _write(Path(options.new), text, may_replace=options.force)
    except KeyboardInterrupt:
        print("[INFO] Interrupted.", file=sys.stderr)
        return INTERRUPTED
    except TrainingError as error:
        for line in str(error).splitlines():
            print(f"[ERROR] {line}", file=sys.stderr)
        return error.exit_code
    print(f"Wrote {options.new}: python -m runtime.train {options.new} --env PATH")
    return 0


def converted(old: str, *, curriculum: str | None = None, sampler: str | None = None) -> str:
    """The text of the file in today's format. Raises ConfigError for what is wrong in OLD, with its line.

    curriculum, sampler: files of the same time whose lessons and samplers go into `environment_parameters:`.
    """
    return _written(_read_old(old, curriculum=curriculum, sampler=sampler))


def _read_old(old: str, *, curriculum: str | None, sampler: str | None) -> RunSettings:
    path = Path(old)
    if format_of(read_file(path)) == "today":
        raise UsageError(
            f"{path}: found {TODAY_FORMAT}; expected trainer_config.yaml of ML-Agents 0.8 to 0.15, with `default:` and "
            f"one block per brain. It needs no conversion: python -m runtime.train {path}",
        )
    flags = [("--curriculum", curriculum), ("--sampler", sampler)]
    words = [word for name, value in flags if value is not None for word in (name, value)]
    return _settings([old, "--train", *words])


def _written(before: RunSettings) -> str:
    text = HEADER.format(name=Path(before.config or "").name) + to_converted_yaml(before)
    _check_equal(before, text)
    return text


def _settings(argv: Sequence[str], text: str | None = None) -> RunSettings:
    around = Surroundings(scenes=frozenset(), rng=random.Random(0), cores=1)
    file = None if text is None else read_yaml(text.encode(), "NEW")
    return parse_run_settings(argv, around, version="", file=file)


def _check_equal(before: RunSettings, text: str) -> None:
    """What is read from the new file trains as what was read from the old one: looked at, not assumed."""
    try:
        after = _settings(["NEW"], text)
    except ConfigError as error:
        raise UsageError(f"{before.config}: what it says cannot be written in today's format: {error}") from error
    parts = (
        (before.behaviors, after.behaviors),
        (before.default_settings, after.default_settings),
        (before.environment, after.environment),
        (before.environment_parameters, after.environment_parameters),
        (before.resampling_interval, after.resampling_interval),
    )
    if any(old != new for old, new in parts):
        raise InternalError("the converted configuration is read as another one. Report this as a bug, with the file.")


def _write(path: Path, text: str, *, may_replace: bool) -> None:
    if path.exists() and not may_replace:
        raise UsageError(f"{path} exists already. Choose another name, or add --force to write over it.")
    if not path.parent.is_dir():
        raise StorageError(f"{path}: there is no folder {path.parent}. Make it first, or choose another name.")
    write_atomically(path, text.encode())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m runtime.convert",
        description="Write a configuration of ML-Agents 0.8 to 0.15 in today's format; it trains equal.",
        epilog="Exit code: 0 written, 2 wrong usage or a mistake in OLD, 5 NEW cannot be written, 130 Ctrl-C.",
    )
    parser.add_argument("old", metavar="OLD", help="trainer_config.yaml with `default:` and one block per brain")
    parser.add_argument("new", metavar="NEW", help="file to write, with `behaviors:`")
    parser.add_argument("--curriculum", metavar="DIR", help="folder of lesson files, BRAIN.json, to take along")
    parser.add_argument("--sampler", metavar="FILE", help="YAML file of samplers to take along")
    parser.add_argument("--force", action="store_true", help="write over NEW if it exists")
    return parser


def command() -> NoReturn:
    """The command line's entrance."""
    sys.exit(main())


if __name__ == "__main__":
    command()
