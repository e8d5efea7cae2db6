"""Where simulated checkpoints are: whole generations, and the one that was being written when its process died."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from runtime.simulation.errors import InvariantError
from runtime.simulation.learner import Snapshot


@dataclass(frozen=True, slots=True)
class Generation:
    """One checkpoint: what the controller and the learner saved at one moment."""

    number: int
    run_state: Mapping[str, object]
    learner: Snapshot


class SimDisk:
    """Generations appear whole or not at all (the rename); their number only rises.

    acknowledged: number of the newest whose save was reported, -1 for none.
    """

    def __init__(self) -> None:
        self.generations: list[Generation] = []
        self.acknowledged = -1
        self._writing: Generation | None = None
        self._count = 0

    def begin(self, run_state: Mapping[str, object], learner: Snapshot) -> None:
        """A save begins; one at a time."""
        if self._writing is not None:
            raise InvariantError("CKPT", "a save begins while another one is being written")
        self._writing = Generation(self._count, run_state, learner)
        self._count += 1

    def end(self, *, failed: bool) -> None:
        """The save has ended; a failed one leaves nothing."""
        assert self._writing is not None
        if not failed:
            self.generations.append(self._writing)
            self.acknowledged = self._writing.number
        self._writing = None

    def crash(self, *, was_renamed: bool) -> None:
        """The process that writes has died, just before the rename or just after it."""
        if self._writing is not None and was_renamed:
            self.generations.append(self._writing)
        self._writing = None

    def newest(self) -> Generation | None:
        """What a run would go on from."""
        newest = self.generations[-1] if self.generations else None
        if (newest.number if newest else -1) < self.acknowledged:
            raise InvariantError("CKPT", f"generation {self.acknowledged} was acknowledged and cannot be loaded")
        return newest
