"""Recognises files of another format, and files with one level too few, so that one sentence explains many faults."""

from __future__ import annotations

from typing import Final

from runtime.settings.behaviors import BEHAVIOR_KEYS, is_level_missing
from runtime.settings.faults import Fault, FaultsError
from runtime.settings.nodes import MapNode, Node

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
_ERA_KEYS: Final = frozenset(
    {
        "trainer",
        "batch_size",
        "beta",
        "brain_to_imitate",
        "buffer_size",
        "demo_path",
        "epsilon",
        "gamma",
        "lambd",
        "learning_rate",
        "memory_size",
        "normalize",
        "num_epoch",
        "sequence_length",
        "use_curiosity",
        "use_recurrent",
        "hidden_units",
    },
)


def check_format(root: MapNode) -> None:
    """Raises FaultsError when the file is not of the format with `behaviors:`, saying which one it is."""
    # `default:` or a key of that time; blocks with today's keys are only in the wrong place.
    brains = [name for name, node in root.entries.items() if name not in TOP_KEYS and _is_era_block(name, node)]
    if brains and "behaviors" not in root.entries:
        problem = (
            "found the format of ML-Agents 0.8 to 0.15 (a `default:` block and one block per brain at the top); "
            "expected `behaviors:` with one block per behavior. A command that converts such files is not part of this "
            "version: move each block under `behaviors:` by hand, its values into `hyperparameters:` and "
            "`network_settings:`"
        )
        raise FaultsError((Fault(place=root.keys[brains[0]], problem=problem),))
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


def _is_behavior_block(node: Node) -> bool:
    return isinstance(node, MapNode) and bool(BEHAVIOR_KEYS & node.entries.keys())


def _is_era_block(name: str, node: Node) -> bool:
    return isinstance(node, MapNode) and (name == "default" or bool(_ERA_KEYS & node.entries.keys()))
