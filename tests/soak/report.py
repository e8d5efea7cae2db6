"""The figures of a marathon, as a table and as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from tests.soak.judgement import Account, RoleMemory, Sample, Struck, role_memory, share
from tests.soak.schedule import VICTIMS

ROLES = ("launcher", "admin", "Supervisor", "TrainerController", "PolicyHolder", "EnvWorker", "player")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All that was measured. loads: of the machine, before and after (processes that want to run, one minute's mean).

    account: of the whole run, in its last summary.json. orderly: the players' count and the account of each run that
    ended in order. comparisons: of accounts and counts while runs went on. rolled_back: agent steps that players took
    after the last save before the launcher or the TrainerController was killed, which the run that goes on takes anew.
    faults: why it has failed.
    """

    command: str
    began_at: str
    took_s: float
    loads: tuple[float, float]
    struck: tuple[Struck, ...]
    account: Account
    orderly: tuple[tuple[int, Account], ...]
    comparisons: int
    rolled_back: int
    memory: tuple[RoleMemory, ...]
    faults: tuple[str, ...]


def memories(samples: Mapping[tuple[str, int, float], Sequence[Sample]], whole_s: float) -> tuple[RoleMemory, ...]:
    """What became of the memory of each role, from the samples of each (role, process id, birth)."""
    found = []
    for role in ROLES:
        lives = [each for (named, _, _), each in samples.items() if named == role]
        if lives:
            found.append(role_memory(role, lives, whole_s))
    return tuple(found)


def quantiles(values: Sequence[float]) -> str:
    """Median, p95 and maximum, in seconds."""
    if not values:
        return "-"
    return f"{statistics.median(values):.2f} / {share(values, 0.95):.2f} / {max(values):.2f}"


def table(report: Report) -> str:
    """For a person."""
    rows = [f"{'victim':18}{'kills':>6}  {'noticed s: median/p95/max':28}{'stepping again s: median/p95/max'}"]
    for victim in VICTIMS:
        of_it = [each for each in report.struck if each.victim == victim]
        noticed = quantiles([each.noticed_s for each in of_it])
        back = quantiles([each.back_s for each in of_it if each.back_s is not None])
        rows.append(f"{victim:18}{len(of_it):>6}  {noticed:28}{back}")
    rows.append("(of the launcher: until no process and no port was left)")
    rows.extend(_steps(report))
    rows.append(f"{'memory of':18}{'MiB':>6}{'lives':>7}  {'worst life: early -> late':28}{'marathon: early -> late'}")
    rows.extend(_memory_row(each) for each in report.memory)
    rows.append(f"load of the machine {report.loads[0]:.1f} before, {report.loads[1]:.1f} after")
    rows.append(_last_row(report))
    return "\n".join(rows)


def _steps(report: Report) -> list[str]:
    account = report.account
    lost = ", ".join(f"{count} {reason}" for reason, count in sorted(account.lost.items())) or "none"
    ends = len(report.orderly)
    counted = sum(count for count, _ in report.orderly)
    known = sum(each.known for _, each in report.orderly)
    bound = sum(each.unreported_max for _, each in report.orderly)
    return [
        f"agent steps: {account.accepted} accepted; declared lost: {lost}; unreported at most {account.unreported_max}",
        f"{report.rolled_back} came after the last save of a killed run, and were taken anew",
        f"{ends} orderly ends: players counted {counted}; {known} of these are accepted or declared lost",
        f"and {counted - known} unreported, at most {bound}; {report.comparisons} comparisons while runs went on",
    ]


def _memory_row(memory: RoleMemory) -> str:
    cells = [
        "-" if each is None else f"{each.early_mib:.1f} -> {each.late_mib:.1f}"
        for each in (memory.worst, memory.across)
    ]
    return f"{memory.role:18}{memory.median_mib:>6.0f}{memory.lives:>7}  {cells[0]:28}{cells[1]}"


def _last_row(report: Report) -> str:
    told = f"{len(report.struck)} kills in {report.took_s / 60:.1f} minutes"
    if not report.faults:
        return f"PASSED: {told}, every promise kept"
    return "\n".join([f"FAILED: {told}", *(f"  {each}" for each in report.faults), f"reproduce: {report.command}"])


def document(report: Report) -> dict[str, object]:
    """For a program: every kill, too."""
    return {**asdict(report), "passed": not report.faults}
