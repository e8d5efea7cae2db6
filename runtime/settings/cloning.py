"""Reads what behaviors learn from demonstrations: beside rewards (`ppo`), or alone (`offline_bc`, `online_bc`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import fields
from typing import Final, TypedDict

from runtime.learner import CloningSettings, PPOHyperparameters, TrainerType
from runtime.learner_rules import CLONING, HYPERPARAMETERS
from runtime.settings import kinds
from runtime.settings.faults import Fault, Findings, Place
from runtime.settings.sections import Section

TRAINERS: Final[tuple[TrainerType, ...]] = ("ppo", "offline_bc", "online_bc")
CLONING_TRAINERS: Final = frozenset({"offline_bc", "online_bc"})
CLONING_HYPERPARAMETERS: Final = ("batch_size", "learning_rate", "learning_rate_schedule", "shared_critic")
"""What those that learn from demonstrations alone have of PPO's; `online_bc` has `buffer_size` too."""
_ALL_CLONING: Final = tuple(each.name for each in fields(CloningSettings))
_ALL_HYPERPARAMETERS: Final = tuple(each.name for each in fields(PPOHyperparameters))
_FILE: Final = "a .demo file, or a folder of them"
_BRAIN: Final = "the name of a brain that the player plays"


def hyperparameter_keys(trainer: TrainerType) -> tuple[str, ...]:
    """The keys under `hyperparameters:` of a trainer that learns from demonstrations alone."""
    return (*CLONING_HYPERPARAMETERS, "buffer_size") if trainer == "online_bc" else CLONING_HYPERPARAMETERS


def cloning_keys(trainer: TrainerType) -> tuple[str, ...]:
    """The keys under `behavioral_cloning:` of a trainer."""
    if trainer == "ppo":
        return ("demo_path", "strength", "steps", "batch_size", "num_epoch", "samples_per_update")
    return ("demo_path" if trainer == "offline_bc" else "brain_to_imitate", "batches_per_epoch")


def read_cloning(
    behavior: Section, trainer: TrainerType, owner: Place | None, findings: Findings
) -> CloningSettings | None:
    """The block `behavioral_cloning:`; None without one, which only `ppo` can do without.

    owner: the behavior; None for `default_settings:`, where each behavior may add what to learn from.
    """
    block, plain = behavior.child("behavioral_cloning"), CloningSettings()

    def take(key: str, default: int) -> int:
        return block.whole(key, CLONING, default) if key in cloning_keys(trainer) else default

    read = CloningSettings(
        demo_path=block.take("demo_path", kinds.text(_FILE), "") if trainer != "online_bc" else "",
        brain_to_imitate=block.take("brain_to_imitate", kinds.text(_BRAIN), "") if trainer == "online_bc" else "",
        batches_per_epoch=take("batches_per_epoch", plain.batches_per_epoch),
        samples_per_update=take("samples_per_update", plain.samples_per_update),
        steps=take("steps", plain.steps),
        **(_passes(block) if trainer == "ppo" else _Passes()),
    )
    _leave(block, _ALL_CLONING, cloning_keys(trainer), trainer, findings)
    block.close()
    if trainer == "ppo" and behavior.is_null("behavioral_cloning"):
        return None
    missing, allowed = ("demo_path", _FILE) if trainer != "online_bc" else ("brain_to_imitate", _BRAIN)
    if owner is not None and not getattr(read, missing) and block.is_good(missing):
        place = behavior.place("behavioral_cloning") or behavior.place("trainer_type") or owner
        problem = f"there is no {missing} to learn from"
        if behavior.place("behavioral_cloning") is None:
            problem += " (under behavioral_cloning)"
        findings.add(Fault(place=place, problem=problem, allowed=allowed))
    return read


def read_cloning_hyperparameters(block: Section, trainer: TrainerType, findings: Findings) -> PPOHyperparameters:
    """The block `hyperparameters:` of `offline_bc` and `online_bc`, with the defaults of 2019.

    buffer_size: of `online_bc`, the demonstrated samples that are kept, the newest ones. Values are not learned, so the
    network has one trunk, unless its weights are to be those with which PPO begins.
    """
    is_online = trainer == "online_bc"
    batch_size = block.whole("batch_size", HYPERPARAMETERS, 64)
    read = PPOHyperparameters(
        batch_size=batch_size,
        buffer_size=block.whole("buffer_size", HYPERPARAMETERS, 10_240) if is_online else batch_size,
        learning_rate=block.real("learning_rate", HYPERPARAMETERS, 3.0e-4),
        learning_rate_schedule=block.take("learning_rate_schedule", kinds.choice(("constant", "linear")), "constant"),
        shared_critic=block.take("shared_critic", kinds.boolean(), True),
    )
    _leave(block, _ALL_HYPERPARAMETERS, hyperparameter_keys(trainer), trainer, findings)
    block.close()
    return read


def _leave(
    block: Section, known: Iterable[str], taken: Collection[str], trainer: TrainerType, findings: Findings
) -> None:
    """Allows the keys of other trainers, which may stand in `default_settings:`, and says that they do nothing."""
    idle = [key for key in known if key not in taken]
    for key in idle:
        block.ignore(key)
    found = [(key, place) for key in idle if (place := block.place(key)) is not None]
    if found:
        findings.note(f"{found[0][1]}: {', '.join(key for key, _ in found)}: no effect with trainer_type {trainer}")


class _Passes(TypedDict, total=False):
    strength: float
    batch_size: int | None
    num_epoch: int | None


def _passes(block: Section) -> _Passes:
    return {
        "strength": block.real("strength", CLONING, 1.0),
        "batch_size": block.take("batch_size", kinds.optional(kinds.whole(CLONING.whole["batch_size"])), None),
        "num_epoch": block.take("num_epoch", kinds.optional(kinds.whole(CLONING.whole["num_epoch"])), None),
    }
