"""`run_logs/training_status.json`: the checkpoints of each behavior, in the format that ML-Agents' tools read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

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


def saved_models(path: Path) -> dict[str, list[SavedModel]]:
    """The models that the file at `path` lists and that exist, by behavior; none without a file that can be read."""
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    found: dict[str, list[SavedModel]] = {}
    for name, content in document.items() if isinstance(document, dict) else ():
        listed = content.get("checkpoints", ()) if isinstance(content, dict) else ()
        models = [_read(each) for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
        there = [each for each in models if each is not None and Path(each.file_path).is_file()]
        if there:
            found[name] = there
    return found


def _read(content: Mapping[str, object]) -> SavedModel | None:
    steps, path, reward = content.get("steps"), content.get("file_path"), content.get("reward")
    created, others = content.get("creation_time"), content.get("auxillary_file_paths", ())
    if not isinstance(steps, int) or not isinstance(path, str) or not isinstance(created, int | float):
        return None
    return SavedModel(
        steps=steps,
        file_path=path,
        reward=float(reward) if isinstance(reward, int | float) else None,
        creation_time=float(created),
        other_files=tuple(str(each) for each in others) if isinstance(others, list) else (),
    )


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
