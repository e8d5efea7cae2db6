"""What players count for themselves, read over and over while they write it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

TAIL_BYTES = 2048


@dataclass(frozen=True, slots=True)
class Entry:
    """The last whole line of one player's journal."""

    env_id: int
    pid: int
    env_steps: int
    agent_steps: int


class JournalBook:
    """The newest entry of every journal in a folder; `read` looks only at the ends of files that have grown."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sizes: dict[Path, int] = {}
        self._entries: dict[Path, Entry] = {}

    def read(self) -> None:
        """Look again."""
        for path in self._folder.glob("*.jsonl"):
            size = path.stat().st_size
            if size == self._sizes.get(path):
                continue
            entry = last_entry(path, size)
            if entry is not None:
                self._sizes[path] = size
                self._entries[path] = entry

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Of all players that ever wrote, dead ones too."""
        return tuple(self._entries.values())

    @property
    def agent_steps(self) -> int:
        """All players together."""
        return sum(each.agent_steps for each in self._entries.values())

    def env_steps_of(self, env_id: int) -> int:
        """Env steps of all lives of one environment's player."""
        return sum(each.env_steps for each in self._entries.values() if each.env_id == env_id)

    def pids_of(self, env_id: int) -> frozenset[int]:
        """Process ids of all lives of one environment's player that have written."""
        return frozenset(each.pid for each in self._entries.values() if each.env_id == env_id)

    def has_stepped(self, env_id: int, *, not_in: frozenset[int]) -> bool:
        """Whether a life of this environment's player that is not one of these has taken a step."""
        return any(each.env_id == env_id and each.pid not in not_in and each.env_steps for each in self.entries)


def last_entry(path: Path, size: int) -> Entry | None:
    """The last whole line of a journal that has `size` bytes; None when there is none yet."""
    with path.open("rb") as file:
        file.seek(max(0, size - TAIL_BYTES))
        lines = file.read(TAIL_BYTES).split(b"\n")[:-1]
    if not lines:
        return None
    line = json.loads(lines[-1])
    env_id, _, pid = path.stem.partition("-")
    return Entry(int(env_id), int(pid), int(line["env_steps"]), int(line["agent_steps"]))
