"""What is made of a marathon's figures: ledgers must balance, memory be flat, kills be many."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

# A life is compared with itself from the age on at which its role has loaded and compiled all that it needs, on a busy
# machine too: TensorFlow and the updates of both collections, onnxruntime and a first policy.
WARM_S: Final[Mapping[str, float]] = {"TrainerController": 25.0, "EnvWorker": 15.0}
WARM_S_ELSE: Final = 6.0
# Where others keep the machine busy, age says little: loading and compiling take so many seconds of a core.
WARM_CPU_S: Final[Mapping[str, float]] = {"TrainerController": 8.0, "EnvWorker": 2.0}
COMPARED_S_MIN: Final = 15.0
# Allocators move a process up and down by a MiB or two (2 % of it where it is large). Between the thirds that are
# compared lie thousands of agent steps: a leak of 1 KiB for each stands out, and so does one of 100 KiB for each kill.
GROWTH_MIB_MAX: Final = 4.0
GROWTH_SHARE_MAX: Final = 0.02


def share(values: Sequence[float], wanted: float) -> float:
    """The smallest of the values that at least this share of them does not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(wanted * len(ordered)) - 1)]


# ---- steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What a run says became of its players' steps, in agent steps, and how often it started something again."""

    accepted: int = 0
    lost: Mapping[str, int] = field(default_factory=dict)
    unreported_max: int = 0
    restarts: int = 0

    @property
    def known(self) -> int:
        """Accepted, or declared lost."""
        return self.accepted + sum(self.lost.values())

    def since(self, base: Account) -> Account:
        """What has come to it after `base`."""
        lost = {reason: count - base.lost.get(reason, 0) for reason, count in self.lost.items()}
        return Account(
            accepted=self.accepted - base.accepted,
            lost={reason: count for reason, count in lost.items() if count},
            unreported_max=self.unreported_max - base.unreported_max,
            restarts=self.restarts - base.restarts,
        )


def account_of(summary: Mapping[str, Any]) -> Account:  # `Any`: JSON with the documented keys
    """Of summary.json."""
    return Account(
        accepted=summary["agent_steps"],
        lost=dict(summary["lost_steps"]),
        unreported_max=summary["unreported_steps_max"],
        restarts=sum(summary["restarts"].values()) + sum(summary["workers"].values()) + summary["holder"],
    )


def account_saved(run_state: Mapping[str, Any]) -> Account:  # `Any`: JSON as the controller saves it
    """Of the `run_state` in a checkpoint, from which a run goes on."""
    return Account(
        accepted=run_state["agent_steps"],
        lost=dict(run_state["lost"]),
        unreported_max=run_state["unreported_max"],
        restarts=sum(run_state["restarts"].values())
        + sum(run_state["worker_restarts"].values())
        + run_state["holder_restarts"],
    )


def imbalance(account: Account, *, counted_before: int, counted_after: int, in_flight_max: int) -> str:
    """Why a life's account does not agree with its players' counts; empty when it does.

    counted_before, counted_after: agent steps that the players had counted before and after the account was written.
    in_flight_max: steps that may be on their way, 0 at an orderly end.
    """
    bound = account.known + account.unreported_max + in_flight_max
    told = (
        f"accepted {account.accepted}, declared lost {dict(account.lost)}, unreported at most {account.unreported_max}"
    )
    if account.known > counted_after:
        return f"steps are counted twice: {told}, the players counted only {counted_after}"
    if counted_before > bound:
        told = f"{told}, in flight at most {in_flight_max}"
        return f"steps are missing without a word: {told}, the players counted {counted_before}"
    return ""


# ---- memory


@dataclass(frozen=True, slots=True)
class Sample:
    """Resident memory of one process: when (seconds of the marathon), at which age, how much.

    cpu_s: seconds of a core that it had used by then.
    """

    at_s: float
    age_s: float
    mib: float
    cpu_s: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """Medians of early and late samples of a role, in MiB."""

    early_mib: float
    late_mib: float

    @property
    def mib(self) -> float:
        """By how much it has grown."""
        return self.late_mib - self.early_mib

    @property
    def is_flat(self) -> bool:
        """Whether that is within what allocators do anyway."""
        return self.mib <= max(GROWTH_MIB_MAX, GROWTH_SHARE_MAX * self.early_mib)


def warm(role: str, samples: Sequence[Sample]) -> list[Sample]:
    """The samples of one role's process or processes that were old enough to be compared."""
    age_s, cpu_s = WARM_S.get(role, WARM_S_ELSE), WARM_CPU_S.get(role, 0.0)
    return [each for each in samples if each.age_s >= age_s and each.cpu_s >= cpu_s]


def growth_of_life(role: str, samples: Sequence[Sample]) -> Growth | None:
    """First third against last third of one process's life; None when it was too short to tell."""
    compared = warm(role, samples)
    if not compared or compared[-1].age_s - compared[0].age_s < COMPARED_S_MIN:
        return None
    return _thirds(compared)


def growth_of_role(role: str, lives: Sequence[Sequence[Sample]], whole_s: float) -> Growth | None:
    """First third against last third of the marathon, all processes of a role together; None without such samples.

    It shows what one life hands to the next: through checkpoints, files, and what others keep of the dead.
    """
    compared = [each for life in lives for each in warm(role, life)]
    early = [each.mib for each in compared if each.at_s < whole_s / 3]
    late = [each.mib for each in compared if each.at_s > whole_s * 2 / 3]
    if not early or not late:
        return None
    return Growth(early_mib=statistics.median(early), late_mib=statistics.median(late))


def _thirds(samples: Sequence[Sample]) -> Growth:
    third = max(1, len(samples) // 3)
    early = statistics.median(each.mib for each in samples[:third])
    return Growth(early_mib=early, late_mib=statistics.median(each.mib for each in samples[-third:]))


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleMemory:
    """What one role's memory did. lives: how many processes were old enough; worst: the one that grew most."""

    role: str
    lives: int
    median_mib: float
    worst: Growth | None
    across: Growth | None

    @property
    def faults(self) -> tuple[str, ...]:
        """What was not flat."""
        named = (("within one life", self.worst), ("over the marathon", self.across))
        return tuple(
            f"the memory of {self.role} grew {when} from {growth.early_mib:.0f} to {growth.late_mib:.0f} MiB"
            for when, growth in named
            if growth is not None and not growth.is_flat
        )


def role_memory(role: str, lives: Sequence[Sequence[Sample]], whole_s: float) -> RoleMemory:
    """Judge one role by the samples of all its processes."""
    grown = [growth for life in lives if (growth := growth_of_life(role, life)) is not None]
    everything = [each.mib for life in lives for each in (warm(role, life) or life)]
    return RoleMemory(
        role=role,
        lives=len(grown),
        median_mib=statistics.median(everything) if everything else 0.0,
        worst=max(grown, key=lambda each: each.mib, default=None),
        across=growth_of_role(role, lives, whole_s),
    )


# ---- the whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Struck:
    """One kill that was made. noticed_s, back_s: seconds after it; None if it was not, or could not be, seen."""

    number: int
    victim: str
    leg: int
    at_s: float
    noticed_s: float
    back_s: float | None = None


def verdict(
    struck: Sequence[Struck], *, wanted: int, has_completed: bool, breaches: Sequence[str], memory: Sequence[RoleMemory]
) -> tuple[str, ...]:
    """All reasons why a marathon has failed; empty when it has not."""
    faults = [f"broken promise: {each.splitlines()[0]}" for each in breaches]
    if len(struck) < wanted:
        faults.append(f"only {len(struck)} kills were made, {wanted} were wanted; is the machine too busy?")
    if not has_completed:
        faults.append("the run was not brought to its end")
    return (*faults, *(fault for each in memory for fault in each.faults))
