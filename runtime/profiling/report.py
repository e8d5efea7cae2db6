"""From the samples of every process: a table of where the time went, and the stacks for flame graphs."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runtime.profiling.flame import flame_graph
from runtime.profiling.labels import WAITING, label
from runtime.profiling.sampler import SUFFIX, Stack
from runtime.profiling.traffic import Sent

SHARE_MIN = 0.005
TABLE, FOLDED, FLAMES = "profile.txt", "profile.folded", "profile.svg"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessProfile:
    """What was seen of one process. threads: seconds on a core; stacks: (thread, stack) -> number of looks."""

    role: str
    pid: int
    seconds: float
    cpu_seconds: float
    looks: int
    threads: Mapping[str, float]
    sent: Mapping[str, Sent]
    stacks: Mapping[tuple[str, Stack], int]


def read_profiles(folder: Path) -> list[ProcessProfile]:
    """All processes that left samples, by role. What is torn or foreign is left out."""
    found = []
    for file in sorted(folder.glob(f"*{SUFFIX}")):
        try:
            document = json.loads(file.read_text(encoding="utf-8"))
            found.append(
                ProcessProfile(
                    role=document["role"],
                    pid=document["pid"],
                    seconds=document["seconds"],
                    cpu_seconds=document["cpu_seconds"],
                    looks=document["looks"],
                    threads=document["threads"],
                    sent={name: Sent(*pair) for name, pair in document["sent"].items()},
                    stacks={(thread, tuple(stack)): count for thread, stack, count in document["stacks"]},
                )
            )
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return sorted(found, key=lambda each: (each.role, each.pid))


def write_report(folder: Path, into: Path) -> str:
    """Writes table, folded stacks and flame graph into `into`, and removes the samples; the table. Raises OSError."""
    profiles = read_profiles(folder)
    text = table(profiles)
    (into / TABLE).write_text(text, encoding="utf-8")
    stacks = folded(profiles)
    (into / FOLDED).write_text("".join(f"{';'.join(stack)} {count}\n" for stack, count in stacks), encoding="utf-8")
    (into / FLAMES).write_text(flame_graph(stacks), encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    return text


def table(profiles: Iterable[ProcessProfile]) -> str:
    """Per process: each thread that worked, with its shares of the time; then what was sent."""
    lines = []
    for each in profiles:
        lines.append(f"{each.role} (pid {each.pid}): {each.seconds:.1f} s, of which {each.cpu_seconds:.1f} s on a core")
        for thread, labels in _threads(each):
            on_core = f"{each.threads[thread]:.1f} s" if thread in each.threads else ""
            lines.append(f"  {thread:22} {on_core:>8} {_shares(labels, each.looks)}")
        for name, sent in sorted(each.sent.items(), key=lambda item: -item[1].size):
            lines.append(f"  sent {name}: {sent.messages} messages, {sent.size:,} bytes")
    return "\n".join(lines) + "\n"


def _threads(profile: ProcessProfile) -> list[tuple[str, Counter[str]]]:
    """What each thread did, those left out that did nothing but wait."""
    threads: dict[str, Counter[str]] = {}
    for (thread, stack), count in profile.stacks.items():
        threads.setdefault(thread, Counter())[label(stack)] += count
    return [
        (name, labels)
        for name, labels in sorted(threads.items())
        if sum(count for word, count in labels.items() if word != WAITING) >= SHARE_MIN * max(1, profile.looks)
    ]


def _shares(labels: Counter[str], looks: int) -> str:
    shares = [(word, count / max(1, looks)) for word, count in labels.most_common()]
    return ", ".join(f"{word} {share:.1%}" for word, share in shares if share >= SHARE_MIN)


def folded(profiles: Iterable[ProcessProfile]) -> Sequence[tuple[Stack, int]]:
    """All stacks that were not waiting, with process and thread as their outermost names, in a stable order."""
    counts: Counter[Stack] = Counter()
    for each in profiles:
        for (thread, stack), count in each.stacks.items():
            if label(stack) != WAITING:
                counts[(each.role, thread, *stack)] += count
    return sorted(counts.items())
