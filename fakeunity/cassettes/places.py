"""Which file holds which player's life.

With one environment FILE is the first life of its player. With several, environment N has FILE with `-N` before the
suffix. Later lives, of players that were started again, add `.I`, their incarnation: `run.cassette`, `run.1.cassette`;
`run-0.cassette`, `run-3.2.cassette`.
"""

from __future__ import annotations

from pathlib import Path

SUFFIX = ".cassette"


def cassette_file(file: Path, *, env_id: int, life: int, environments: int) -> Path:
    """The file of this environment and life; life 0 is the first of the recording."""
    suffix = file.suffix
    stem = file.name.removesuffix(suffix) + (f"-{env_id}" if environments > 1 else "") + (f".{life}" if life else "")
    return file.with_name(stem + suffix)


def found_cassette(file: Path, *, env_id: int, life: int) -> Path:
    """The file that a player of this environment and life plays: one of several environments, else the only one's."""
    own = cassette_file(file, env_id=env_id, life=life, environments=2)
    return own if own.exists() else cassette_file(file, env_id=env_id, life=life, environments=1)
