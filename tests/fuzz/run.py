"""Fuzzes one target: `python -m tests.fuzz.run TARGET [--executions N] [--seed N]`; `--atheris`: guided by coverage,
with libFuzzer's own options (`-runs=N`, `-max_total_time=S`) behind it.

Without atheris, seeded mutations of good bytes are tried; the seed and the number of the execution replay a finding.
Prints how many executions were accepted and refused, and the slowest one.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import random
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FunctionType

from tests.fuzz.fake_targets import FAKE_TARGETS
from tests.fuzz.mutation import mutated
from tests.fuzz.targets import TARGETS, Target

ALL_TARGETS: Mapping[str, Target] = {**TARGETS, **FAKE_TARGETS}
INSTRUMENTED = ("fakeunity", "runtime")
# No input may take longer or need more than this, in seconds and mebibytes.
BOUNDS = ("-timeout=10", "-rss_limit_mb=2000", "-malloc_limit_mb=1000")


def execute(target: Target, body: bytes) -> bool:
    """Whether the target takes the bytes. Whatever it raises and does not declare is a finding, and is raised."""
    try:
        target.run(body)
    except target.errors:
        return False
    return True


def fuzz(target: Target, *, executions: int, seed: int) -> tuple[int, float]:
    """How many of so many mutations were taken, and the longest execution in seconds. Raises what is found."""
    rng = random.Random(seed)
    taken, slowest_s = 0, 0.0
    for number in range(executions):
        body = mutated(rng, target.seeds)
        began = time.perf_counter()
        try:
            taken += execute(target, body)
        except BaseException:
            sys.stderr.write(f"seed {seed}, execution {number}: {body.hex()}\n")
            raise
        slowest_s = max(slowest_s, time.perf_counter() - began)
    return taken, slowest_s


def _guided(target: Target, options: Sequence[str]) -> None:
    """Lets libFuzzer look for inputs that reach new code, from the seeds on, within BOUNDS; ends the process."""
    atheris = importlib.import_module("atheris")
    for each in gc.get_objects():  # everything there is would take minutes
        if isinstance(each, FunctionType) and (each.__module__ or "").partition(".")[0] in INSTRUMENTED:
            atheris.instrument_func(each)
    with tempfile.TemporaryDirectory() as folder:
        for number, seed in enumerate(target.seeds):
            (Path(folder) / f"seed-{number}").write_bytes(seed)
        longest = max(map(len, target.seeds))
        words = [sys.argv[0], *BOUNDS, f"-max_len={2 * longest + 64}", *options, folder]
        atheris.Setup(words, lambda body: execute(target, body))
        atheris.Fuzz()


def main(arguments: Sequence[str]) -> int:
    """Exit code 0 when nothing was found; a finding is raised."""
    parser = argparse.ArgumentParser(prog="tests.fuzz.run")
    parser.add_argument("target", choices=sorted(ALL_TARGETS))
    parser.add_argument("--executions", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--atheris", action="store_true", help="guided by coverage; needs the atheris package")
    options, rest = parser.parse_known_args(arguments)
    target = ALL_TARGETS[options.target]
    if options.atheris:
        _guided(target, rest)
        return 0
    taken, slowest_s = fuzz(target, executions=options.executions, seed=options.seed)
    sys.stdout.write(
        f"{options.target}: {options.executions} executions, {taken} taken, slowest {slowest_s * 1000:.1f} ms\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
