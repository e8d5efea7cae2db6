"""Where simulated checkpoints are: generations, some of them damaged, on a disk that may be full, slow or failing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from runtime.simulation.draws import Draws
from runtime.simulation.errors import InvariantError
from runtime.simulation.learner import Snapshot

# full: from some save on there is no room, for a while. slow: saves take longer than it takes until the next one.
# failing: writes or their synchronisation report an error, and what was written is there all the same, or is not.
DiskKind = Literal["good", "full", "slow", "failing"]
KEPT = 2
FULL_FROM, FULL_FOR = (1.0, 0.0, 2.0, 3.0), (2.0, 1.0, 3.0, 50.0)
SLOW_S = (1.0, 0.0, 4.0)
FAILING_SHARE = 0.4


@dataclass(frozen=True, slots=True)
class Generation:
    """One checkpoint: what the controller and the learner saved at one moment. is_whole: no byte of it is missing."""

    number: int
    run_state: Mapping[str, object]
    learner: Snapshot
    is_whole: bool = True


@dataclass(slots=True)
class SimDisk:
    """Generations whose number only rises; the oldest go once there are two newer ones that were acknowledged.

    acknowledged: number of the newest whose save was reported, -1 for none. error: of the newest save, empty for none.
    spells: how often saves began to fail. damaged: generations that are there in part.
    """

    kind: DiskKind = "good"
    generations: list[Generation] = field(default_factory=list)
    acknowledged: int = -1
    error: str = ""
    spells: int = 0
    damaged: int = 0
    _writing: Generation | None = None
    _count: int = 0
    _full: range | None = None

    def begin(self, run_state: Mapping[str, object], learner: Snapshot) -> None:
        """A save begins; one at a time."""
        if self._writing is not None:
            raise InvariantError("CKPT", "a save begins while another one is being written")
        self._writing = Generation(self._count, run_state, learner)
        self._count += 1

    def took_s(self, draws: Draws, ordinary: tuple[float, ...]) -> float:
        """How long the save takes that has begun."""
        return draws.choose(SLOW_S if self.kind == "slow" else ordinary)

    def end(self, draws: Draws) -> str:
        """The save has ended; why it failed, empty when it did not."""
        assert self._writing is not None
        writing, self._writing = self._writing, None
        was_failing, self.error = bool(self.error), self._refusal(writing.number, draws)
        self.spells += bool(self.error) and not was_failing
        if not self.error:
            self.generations.append(writing)
            self.acknowledged = writing.number
            self._clean_up()
        elif self.kind == "failing" and draws.tosses():
            self.generations.append(writing)  # it was never acknowledged, and may be gone with the power
        return self.error

    def crash(self, draws: Draws) -> None:
        """The process that writes has died: what it wrote is not there, is there in part, or just became whole."""
        writing, self._writing = self._writing, None
        if writing is None or not draws.tosses(0.7):
            return
        is_whole = draws.tosses()
        self.damaged += not is_whole
        self.generations.append(writing if is_whole else replace(writing, is_whole=False))

    def newest(self) -> Generation | None:
        """What a run would go on from: the newest whole one, never older than the last that was acknowledged."""
        newest = next((each for each in reversed(self.generations) if each.is_whole), None)
        if (newest.number if newest else -1) < self.acknowledged:
            raise InvariantError("CKPT", f"generation {self.acknowledged} was acknowledged and cannot be loaded")
        return newest

    def _refusal(self, number: int, draws: Draws) -> str:
        if self.kind == "failing":
            return "input/output error (simulated)" if draws.tosses(FAILING_SHARE) else ""
        if self.kind != "full":
            return ""
        if self._full is None:
            first = int(draws.choose(FULL_FROM))
            self._full = range(first, first + int(draws.choose(FULL_FOR)))
        return "no space left (simulated)" if number in self._full else ""

    def _clean_up(self) -> None:
        """Only what is older than the two newest whole ones goes, so that damage never leaves nothing to load."""
        whole = [each.number for each in self.generations if each.is_whole]
        if len(whole) > KEPT:
            self.generations = [each for each in self.generations if each.number >= whole[-KEPT]]
