"""`run_logs/training_status.json`: the checkpoints of each behavior, in the format that ML-Agents' tools read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runtime.results import Json

STATS_FORMAT_VERSION = "0.3.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedModel:
    """One saved model. file_path: as users see it. reward: mean at that time, None without episodes.

    creation_time: seconds since 1970. other_files: what belongs to it, such as the checkpoint's folder.
    """

    steps: int
    file_path: str
    reward: float | None
    creation_time: float
    other_files: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedBehavior:
    """The models of a behavior, oldest first, and the final one; None until the run ends."""

    checkpoints: Sequence[SavedModel] = ()
    final: SavedModel | None = None


def training_status_document(
    behaviors: Mapping[str, SavedBehavior],
    *,
    versions: Mapping[str, str],
    lessons: Mapping[str, int] | None = None,
) -> dict[str, Json]:
    """The document of `training_status.json`. versions: of this program and what it uses, lessons: by parameter."""
    document: dict[str, Json] = {name: _behavior(saved) for name, saved in behaviors.items()}
    for parameter, lesson in (lessons or {}).items():
        document[parameter] = {"lesson_num": lesson}
    document["metadata"] = {"stats_format_version": STATS_FORMAT_VERSION, **versions}
    return document


def _behavior(saved: SavedBehavior) -> dict[str, Json]:
    content: dict[str, Json] = {"checkpoints": [_model(model) for model in saved.checkpoints]}
    if saved.final is not None:
        content["final_checkpoint"] = _model(saved.final)
    return content


def _model(model: SavedModel) -> dict[str, Json]:
    return {
        "steps": model.steps,
        "file_path": model.file_path,
        "reward": model.reward,
        "creation_time": model.creation_time,
        # Spelled as the format spells it.
        "auxillary_file_paths": list(model.other_files),
    }
