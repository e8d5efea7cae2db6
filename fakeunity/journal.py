"""The player's own account of what it did: one JSON line per exchange, for anyone to compare with the trainer's.

*Env step*: one reply to a STEP, with no agents too. *Decision*: one action row received for an agent that is not done.
*Agent step*: one decision whose outcome, the agent's next row, was sent. *Episode*: one row that is done. A line is
written after the reply is computed and before it is sent, so what a trainer has seen is never missing here. Numbers
that came as environment parameters are told under `parameters`.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True)
class Counters:
    """What a player has done so far."""

    exchange: int = 0
    env_steps: int = 0
    agent_steps: int = 0
    decisions: int = 0
    episodes: int = 0


@dataclass(slots=True)
class OpenDecisions:
    """Agents of one behavior with a decision whose outcome has not been sent."""

    ids: set[int] = field(default_factory=set)

    def settle(self, sent: list[int]) -> int:
        """How many open decisions the rows of these ids answer; they are open no longer."""
        answered = self.ids.intersection(sent)
        self.ids -= answered
        return len(answered)


class Journal:
    """Appends to `FOLDER/<env id>-<pid>.jsonl`, making the folder if need be; each line is on its way before return.

    Players that one process hosts one after the other for the same environment share a file: exchange 1 starts each.
    """

    def __init__(self, folder: Path, env_id: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._pid = os.getpid()
        self.path = folder / f"{env_id}-{self._pid}.jsonl"
        self._file = self.path.open("ab", buffering=0)

    def write(self, command: str, counters: Counters, **more: str | int | dict[str, float]) -> None:
        """One line: pid, exchange, command, the cumulative counters, and `more`."""
        line = {
            "pid": self._pid,
            "exchange": counters.exchange,
            "command": command,
            "env_steps": counters.env_steps,
            "agent_steps": counters.agent_steps,
            "decisions": counters.decisions,
            "episodes": counters.episodes,
            **more,
        }
        self._file.write(json.dumps(line).encode() + b"\n")

    def close(self) -> None:
        """Closes the file; harmless twice."""
        self._file.close()
