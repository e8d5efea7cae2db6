"""`--record FILE`: every message between us and a player, as a cassette that `fakeunity replay` plays again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fakeunity.cassettes.places import cassette_file
from fakeunity.cassettes.recorder import Recorder
from runtime.errors import UsageError
from runtime.messages import EnvAssignment
from runtime.players.links import Speaker

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordTo:
    """Opens the recording of a new player; travels to EnvWorkers by cloudpickle.

    file: of the only environment's first player; see `fakeunity.cassettes.places` for the others. environments:
    how many there are. first_incarnation: of the players at the run's start. target: as `--env` says it.
    """

    file: str
    environments: int
    first_incarnation: int
    target: str

    def __call__(self, assignment: EnvAssignment) -> CassetteTap:
        """The recording of this player. Raises OSError when its file is there already, or cannot be made."""
        path = self.path(assignment.env_id, assignment.incarnation - self.first_incarnation)
        more = {"target": self.target, "env_id": int(assignment.env_id), "incarnation": int(assignment.incarnation)}
        return CassetteTap(path, more)

    def path(self, env_id: int, life: int) -> Path:
        """Where the life of this number is recorded."""
        return cassette_file(Path(self.file), env_id=env_id, life=life, environments=self.environments)

    def require_room(self) -> None:
        """Nothing, when the recordings can be made. Raises UsageError for one that is there, or for no folder."""
        for env_id in range(self.environments):
            path = self.path(env_id, 0)
            if path.exists():
                raise UsageError(
                    f"--record: {str(path)!r} is there already; a recording is never written over. "
                    "Name another file, or delete that one."
                )
            if not path.parent.is_dir():
                raise UsageError(f"--record: there is no folder {str(path.parent)!r}; make it, or name another file.")


class CassetteTap:
    """A `MessageTap` that records. What cannot be written ends the recording, and not the run: it is said once."""

    def __init__(self, path: Path, more: Mapping[str, object]) -> None:
        self._path = path
        self._recorder: Recorder | None = Recorder(path, more)

    def on_bytes(self, speaker: Speaker, body: bytes) -> None:
        """Somebody said this."""
        recorder = self._recorder
        if recorder is not None:
            self._or_end(lambda: recorder.on_bytes(speaker, body))

    def close(self) -> None:
        """Ends the recording."""
        recorder = self._recorder
        if recorder is not None:
            self._or_end(recorder.close)
        self._recorder = None

    def _or_end(self, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            if self._recorder is not None:
                self._recorder.abandon()
            self._recorder = None
            logger.warning("the recording ends", extra={"file": str(self._path), "cause": str(error)})
