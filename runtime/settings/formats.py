"""Tells the two formats apart by their content, and finds files with one level too few."""

from __future__ import annotations

from typing import Final, Literal

from runtime.settings.behaviors import BEHAVIOR_KEYS, is_level_missing
from runtime.settings.era import is_era, is_era_block
from runtime.settings.faults import Fault, FaultsError
from runtime.settings.nodes import MapNode, Node, Scalar

TOP_KEYS: Final = (
    "behaviors",
    "default_settings",
    "env_settings",
    "engine_settings",
    "environment_parameters",
    "checkpoint_settings",
    "torch_settings",
    "debug",
    "runtime",
)
ERA_FORMAT: Final = "the format of ML-Agents 0.8 to 0.15 (a `default:` block and one block per brain at the top)"
TODAY_FORMAT: Final = "the format with `behaviors:`"
CONVERT: Final = "python -m runtime.convert"

Format = Literal["today", "era"]


def format_of(root: MapNode) -> Format:
    """Which format a file is in. Raises FaultsError when it is of both, or of none."""
    others = frozenset(TOP_KEYS)
    if not is_era(root, others):
        _check_today(root)
        return "today"
    mixed = [name for name, node in root.entries.items() if name in others and not _is_brain(root, node)]
    if mixed:
        problem = (
            f"found {TODAY_FORMAT} in this block and {ERA_FORMAT} in others; expected one of the two in a file. Move "
            f"the brains to a file OLD, run `{CONVERT} OLD NEW`, and put into NEW what is left"
        )
        raise FaultsError((Fault(place=root.keys[mixed[0]], problem=problem),))
    return "era"


def _is_brain(root: MapNode, node: Node) -> bool:
    """A brain may be called as a block of today's files."""
    return is_era_block(node) or (isinstance(node, Scalar) and node.text in root.entries)


def _check_today(root: MapNode) -> None:
    stray = [name for name, node in root.entries.items() if name not in TOP_KEYS and _is_behavior_block(node)]
    if stray:
        problem = "this block belongs to a behavior; expected it below `behaviors:`, indented by one more level"
        raise FaultsError(Fault(place=root.keys[name], problem=problem) for name in stray)
    behaviors = root.entries.get("behaviors")
    if isinstance(behaviors, MapNode) and is_level_missing(behaviors):
        problem = (
            "the level with the behavior's name is missing: expected `behaviors:`, below it a name as the player "
            "announces it, and below that trainer_type, hyperparameters and so on"
        )
        raise FaultsError((Fault(place=root.keys["behaviors"], problem=problem),))
    if isinstance(behaviors, MapNode):
        _refuse_era_blocks(behaviors)


def _refuse_era_blocks(behaviors: MapNode) -> None:
    """Brains of the old format that were only moved below `behaviors:`."""
    old = [name for name, node in behaviors.entries.items() if is_era_block(node) and not _is_behavior_now(node)]
    if old:
        problem = (
            f"found the keys of {ERA_FORMAT}; expected those of {TODAY_FORMAT}, such as trainer_type and "
            f"hyperparameters. Give the old file as it was, or convert it: `{CONVERT} OLD NEW`"
        )
        raise FaultsError(Fault(place=behaviors.keys[name], problem=problem) for name in old)


def _is_behavior_now(node: Node) -> bool:
    now = {"trainer_type", "hyperparameters", "network_settings", "reward_signals"}
    return isinstance(node, MapNode) and bool(now & node.entries.keys())


def _is_behavior_block(node: Node) -> bool:
    return isinstance(node, MapNode) and bool(BEHAVIOR_KEYS & node.entries.keys())
