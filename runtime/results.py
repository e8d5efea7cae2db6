"""`summary.json`, which people and programs read, and how every file of a run is written whole or not at all."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from runtime.errors import StorageError
from runtime.folders import sync_folder
from runtime.messages import Status

ExitReason = Literal[
    "max_steps",
    "stop_at",
    "interrupted",
    "terminated",
    "environment_failure",
    "trainer_failure",
    "storage_failure",
]
Json = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """What `summary.json` says; the keys are public and explained in the documentation.

    Mappings by brain have the behavior's name as key, without `?team=N`. exit_reason and policy_sha256 are None while
    the run goes on. elapsed_s, steps_per_s: real time. restarts: by env id, workers: by worker number, zeros
    included; holder: how often the PolicyHolder was lost. replaced_numbers: of players, that were not finite and
    became 0 because `--not-finite zero` asked for it. lessons: of each environment parameter that has some, from 0.
    """

    run_id: str
    seed: int
    elapsed_s: float = 0.0
    exit_reason: ExitReason | None = None
    env_steps: int = 0
    agent_steps: int = 0
    decisions: int = 0
    steps_per_s: float = 0.0
    mean_reward: Mapping[str, float | None] = field(default_factory=dict)
    mean_episode_length: Mapping[str, float | None] = field(default_factory=dict)
    episodes: Mapping[str, int] = field(default_factory=dict)
    policy_version: Mapping[str, int] = field(default_factory=dict)
    policy_sha256: Mapping[str, str | None] = field(default_factory=dict)
    lost_steps: Mapping[str, int] = field(default_factory=dict)
    unreported_steps_max: int = 0
    replaced_numbers: int = 0
    restarts: Mapping[int, int] = field(default_factory=dict)
    workers: Mapping[int, int] = field(default_factory=dict)
    holder: int = 0
    lessons: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        """The document as JSON values; a number that is not finite becomes null."""
        return {
            "run_id": self.run_id,
            "seed": self.seed,
            "elapsed_s": _finite(self.elapsed_s),
            "exit_reason": self.exit_reason,
            "env_steps": self.env_steps,
            "agent_steps": self.agent_steps,
            "decisions": self.decisions,
            "steps_per_s": _finite(self.steps_per_s),
            "mean_reward": {brain: _finite(mean) for brain, mean in self.mean_reward.items()},
            "mean_episode_length": {brain: _finite(mean) for brain, mean in self.mean_episode_length.items()},
            "episodes": dict(self.episodes),
            "policy_version": dict(self.policy_version),
            "policy_sha256": dict(self.policy_sha256),
            "lost_steps": dict(self.lost_steps),
            "unreported_steps_max": self.unreported_steps_max,
            "replaced_numbers": self.replaced_numbers,
            "restarts": {str(env_id): count for env_id, count in sorted(self.restarts.items())},
            "workers": {str(worker): count for worker, count in sorted(self.workers.items())},
            "holder": self.holder,
            "lessons": dict(self.lessons),
        }


def told_totals(document: Mapping[str, Any], status: Status, elapsed_s: float) -> dict[str, Json]:
    """What `summary.json` says of totals once `status` was the last word; empty when the document is as new."""
    if status.agent_steps <= document.get("agent_steps", 0):
        return {}
    brains = {each.behavior: each for each in status.brains}
    working_s = elapsed_s - (status.first_step_s or 0.0)
    return {
        "env_steps": status.env_steps,
        "agent_steps": status.agent_steps,
        "decisions": status.decisions,
        "steps_per_s": _finite(status.agent_steps / working_s) if working_s > 0 else 0.0,
        "mean_reward": {name: each.mean_reward for name, each in brains.items()},
        "mean_episode_length": {name: each.mean_episode_length for name, each in brains.items()},
        "episodes": {name: each.episodes for name, each in brains.items()},
        "policy_version": {name: each.policy_version for name, each in brains.items()},
        "policy_sha256": {name: each.policy_sha256 or None for name, each in brains.items()},
        "lost_steps": dict(status.lost_steps),
        "unreported_steps_max": status.unreported_steps_max,
        "replaced_numbers": status.replaced_numbers,
        "restarts": {str(each.env_id): each.restarts for each in status.environments},
        "workers": {**document.get("workers", {}), **{str(each): n for each, n in status.worker_restarts.items()}},
    }


def write_json_atomically(path: Path, document: Json) -> None:
    """Writes a JSON document; who reads meanwhile, or after a crash, finds the old or the new one.

    Numbers that are not finite become null. Raises StorageError when the folder cannot be written.
    """
    text = json.dumps(_without_nan(document), indent=2, ensure_ascii=False, allow_nan=False)
    # A name from the wire may hold half a surrogate pair, which UTF-8 cannot carry.
    write_atomically(path, text.encode("utf-8", "backslashreplace") + b"\n")


def write_atomically(path: Path, content: bytes) -> None:
    """Writes a file by way of a temporary one beside it, made durable before it takes the name.

    Raises StorageError; the old file is untouched then, and the temporary one is gone.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        try:
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(f"cannot write {path}: {reason}. Check free space and permissions.") from error


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


def _without_nan(value: Json) -> Json:
    match value:
        case str():
            return value
        case float():
            return _finite(value)
        case Mapping():
            return {key: _without_nan(inner) for key, inner in value.items()}
        case Sequence():
            return [_without_nan(inner) for inner in value]
    return value
