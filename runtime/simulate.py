"""`python -m runtime.simulate`: the actor protocol under thousands of seeded schedules, with replay and shrinking."""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

from runtime.errors import UsageError
from runtime.interrupts import INTERRUPTED, raise_again
from runtime.simulation.campaign import Campaign, Tally, run_campaign
from runtime.simulation.diagrams import lamport_diagram
from runtime.simulation.lines import FORM, Line, parse_line
from runtime.simulation.mutations import known_mutants, simulator_of
from runtime.simulation.running import Outcome
from runtime.simulation.scenarios import PROFILES
from runtime.simulation.shrinking import shrink

COUNT = 1000
FAILURES_SHOWN_MAX = 10
PROGRESS_S = 2.0


def main(argv: Sequence[str] | None = None) -> int:
    """Simulate, and return the exit code: 0 every invariant held, 1 one was broken, 2 wrong usage, 130 Ctrl-C."""
    options = _parser().parse_args(argv)
    try:
        raise_again()  # processes that were started are ended
        _refuse_ignored(options)
        if options.list_mutants:
            return _list_mutants()
        if options.replay is not None:
            return _replay(parse_line(options.replay), options.mutant, rows=options.rows)
        if options.shrink is not None:
            return _shrink(parse_line(options.shrink), options.mutant, rows=options.rows)
        return _simulate(options)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m runtime.simulate",
        description="Run the decision machines of a whole training run under a seeded scheduler with faults.",
        epilog=f"A LINE is {FORM}. Exit code: 0 every invariant held, 1 one was broken, 2 wrong usage, 130 Ctrl-C.",
    )
    parser.add_argument("--seed", type=_natural, default=None, metavar="N", help="first seed (0); alone: only this one")
    parser.add_argument("--count", type=_positive, default=None, metavar="N", help=f"how many seeds ({COUNT})")
    parser.add_argument("--jobs", type=_positive, default=None, metavar="N", help=f"processes ({_cores()} here)")
    parser.add_argument("--profile", choices=PROFILES, default=None, help="what may happen; default: drawn by the seed")
    parser.add_argument(
        "--until-failure", action="store_true", help="stop at the first failure; without --count, only there"
    )
    parser.add_argument("--replay", metavar="LINE", help="repeat one schedule exactly, and draw it")
    parser.add_argument("--shrink", metavar="LINE", help="reduce a failure to few events, and draw it")
    parser.add_argument("--rows", type=_positive, default=45, metavar="N", help="rows of a drawing at most (45)")
    parser.add_argument("--mutant", default="", metavar="NAME", help="simulate machines with this fault built in")
    parser.add_argument("--list-mutants", action="store_true", help="show all mutants, and end")
    return parser


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _is_given(value: object) -> bool:
    return value is not None and value is not False


def _refuse_ignored(options: argparse.Namespace) -> None:
    """Raises UsageError when one option says what to do and another would have no part in it."""
    given = [name for name in ("list_mutants", "replay", "shrink") if _is_given(getattr(options, name))]
    if not given:
        return
    others = ("seed", "count", "jobs", "profile", "until_failure")
    given += [name for name in others if _is_given(getattr(options, name))]
    if len(given) > 1:
        first, second = (f"--{name.replace('_', '-')}" for name in given[:2])
        raise UsageError(f"{second} has no meaning beside {first}, which says all; expected one of them")


def _natural(text: str) -> int:
    return _integer(text, 0)


def _positive(text: str) -> int:
    return _integer(text, 1)


def _integer(text: str, least: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected an integer from {least} on")
    return value


def _list_mutants() -> int:
    for name, text in known_mutants().items():
        print(f"{name:32} {text}")
    return 0


def _replay(line: Line, mutant: str, *, rows: int) -> int:
    return _show(line, simulator_of(mutant)(line.scenario(), line.skips), mutant, rows=rows)


def _shrink(line: Line, mutant: str, *, rows: int) -> int:
    began_s = time.monotonic()
    shrunk = shrink(line, simulator_of(mutant))
    took_s = time.monotonic() - began_s
    code = _show(shrunk.line, shrunk.outcome, mutant, rows=rows)
    print(f"shrunk in {shrunk.runs} runs, {took_s:.1f} s")
    return code


def _show(line: Line, outcome: Outcome, mutant: str, *, rows: int) -> int:
    print(lamport_diagram(outcome.trace, rows))
    faults = ", ".join(f"{count} x {kind}" for kind, count in outcome.faults.items()) or "none"
    print(f"trace {outcome.digest}: {outcome.events} events, {len(outcome.deviated)} choices deviate, faults: {faults}")
    if outcome.failure is None:
        print("every invariant held")
        return 0
    print(outcome.failure)
    print(f"replay: {_command(mutant)} --replay {line}")
    return 1


def _command(mutant: str) -> str:
    return "python -m runtime.simulate" + (f" --mutant {mutant}" if mutant else "")


def _simulate(options: argparse.Namespace) -> int:
    count = options.count
    if count is None:
        count = 1 if options.seed is not None and not options.until_failure else COUNT
    campaign = Campaign(
        first=options.seed or 0,
        count=count,
        profile=options.profile,
        mutant=options.mutant,
        stops_at_failure=options.until_failure,
    )
    simulator_of(options.mutant)  # a wrong name is told before processes are started
    jobs = 1 if count <= 50 else options.jobs or _cores()
    began_s, total = time.monotonic(), Tally()
    endless = options.until_failure and options.count is None
    for start in itertools.count(campaign.first, count):
        total.add(run_campaign(replace(campaign, first=start), jobs, _Progress(total)))
        if not endless or total.failures:
            break
    return _report(total, options.mutant, time.monotonic() - began_s)


class _Progress:
    """Says how far it is, every few seconds, on standard error."""

    def __init__(self, before: Tally) -> None:
        self._before = before
        self._told_s = time.monotonic()

    def __call__(self, tally: Tally) -> None:
        now_s = time.monotonic()
        if now_s - self._told_s >= PROGRESS_S:
            self._told_s = now_s
            done, failed = self._before.schedules + tally.schedules, len(self._before.failures) + len(tally.failures)
            print(f"{done} schedules, {failed} failed", file=sys.stderr)


def _report(total: Tally, mutant: str, took_s: float) -> int:
    mean = total.events / max(1, total.schedules)
    print(
        f"{total.schedules} schedules of {mean:.0f} events in {took_s:.1f} s: "
        f"{total.rate:.0f} schedules/s per core, {len(total.failures)} failed"
    )
    faults = ", ".join(f"{count} x {kind}" for kind, count in total.faults.most_common()) or "none"
    print(f"faults: {faults}")
    for line, text in total.failures[:FAILURES_SHOWN_MAX]:
        print(f"{text}\n  {_command(mutant)} --shrink {line}")
    if len(total.failures) > FAILURES_SHOWN_MAX:
        print(f"and {len(total.failures) - FAILURES_SHOWN_MAX} more")
    return 1 if total.failures else 0


def command() -> None:
    """The entry point of the command."""
    sys.exit(main())


if __name__ == "__main__":
    command()
