"""Names of behaviors: what is looked up, and what a file may be called."""

from __future__ import annotations

import hashlib
import re

_TEAM = re.compile(r"\?team=-?\d+\Z", re.ASCII)
_SAFE = re.compile(r"[A-Za-z0-9 _.-]{1,64}", re.ASCII)
_UNSAFE_CHARACTER = re.compile(r"[^A-Za-z0-9 _.-]", re.ASCII)
# Windows opens a device under these names, whatever the extension.
_DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)[ .]*(\..*)?", re.IGNORECASE | re.ASCII)
# What else there is in a run's folder; compared without case for file systems that do so.
_OTHERS_OF_A_RUN = frozenset(
    {"checkpoints", "run_logs", "configuration.yaml", "summary.json", "training_summary.json", "run.lock", "actors.log"}
)
CLEANED_CHARACTERS_MAX = 48


def behavior_name(brain: str) -> str:
    """The name without `?team=N`: all teams of a behavior share one trainer, one model and one entry."""
    return _TEAM.sub("", brain)


def clean_name(brain: str) -> str:
    """What files and folders of a brain are called.

    The behavior's own name where that is safe on every system, else a cleaned name, `-`, and 8 hex digits of the
    SHA-256 of the behavior's name.
    """
    name = behavior_name(brain)
    if _is_safe(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    cleaned = _UNSAFE_CHARACTER.sub("_", name)[:CLEANED_CHARACTERS_MAX].lstrip(". ")
    if not cleaned or _DEVICE.fullmatch(cleaned):
        cleaned = f"_{cleaned}"
    return f"{cleaned}-{digest}"


def _is_safe(name: str) -> bool:
    if _SAFE.fullmatch(name) is None or name[0] in ". " or name[-1] in ". ":
        return False
    return _DEVICE.fullmatch(name) is None and name.casefold() not in _OTHERS_OF_A_RUN
