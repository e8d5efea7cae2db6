"""Reads the blocks of behaviors. What ML-Agents has and this version has not is refused by its name."""

from __future__ import annotations

from typing import Final

from runtime.learner import BehaviorSettings, PPOHyperparameters, Schedule, TrainerType
from runtime.learner_rules import BEHAVIOR, HYPERPARAMETERS, batch_misfit, sequence_misfit
from runtime.settings import kinds
from runtime.settings.cloning import CLONING_TRAINERS, TRAINERS, read_cloning, read_cloning_hyperparameters
from runtime.settings.faults import Fault, Findings, Place
from runtime.settings.networks import read_network
from runtime.settings.nodes import MapNode, Node, empty_map
from runtime.settings.reward_signals import read_signals
from runtime.settings.sections import Section

SCHEDULES: Final[tuple[Schedule, ...]] = ("linear", "constant")
_LATER_TRAINERS: Final = ("sac", "poca")
_NOT_YET: Final = "not supported yet; remove it"
_SAC_KEYS: Final = (
    "buffer_init_steps",
    "tau",
    "steps_per_update",
    "save_replay_buffer",
    "init_entcoef",
    "reward_signal_steps_per_update",
)
_BLOCKS: Final = frozenset({"hyperparameters", "network_settings", "reward_signals"})
# Keys that stand directly in a behavior's block: seen one level too high, they tell that the name is missing.
BEHAVIOR_KEYS: Final = frozenset(
    {
        "trainer_type",
        "hyperparameters",
        "network_settings",
        "reward_signals",
        "init_path",
        "keep_checkpoints",
        "checkpoint_interval",
        "even_checkpoints",
        "max_steps",
        "time_horizon",
        "summary_freq",
        "threaded",
        "self_play",
        "behavioral_cloning",
    },
)


def read_behaviors(root: Section, findings: Findings) -> tuple[dict[str, BehaviorSettings], BehaviorSettings | None]:
    """The blocks under `behaviors:` by name, and those of `default_settings:`; None when that is absent or null."""
    defaults = root.child_layers("default_settings")
    default_settings = _read_behavior(defaults, "default_settings", findings, is_default=True) if defaults else None
    behaviors: dict[str, BehaviorSettings] = {}
    blocks = root.child_layers("behaviors")
    section = Section(blocks, findings)
    for name in section.names():
        own = section.child_layers(name)
        place = section.place(name)
        assert place is not None
        if not name.strip():
            findings.add(Fault(place=place, problem="a behavior needs a name"))
        elif "?team=" in name:
            findings.add(Fault(place=place, problem="write the name without ?team=N; all teams share its settings"))
        # With its own key as a place, a behavior without any key still has a line for faults between keys.
        behaviors[name] = _read_behavior([*defaults, *(own or [empty_map(place)])], place.key, findings)
    return behaviors, default_settings


def is_level_missing(behaviors: MapNode) -> bool:
    """True when a behavior's own keys stand where the names of behaviors belong.

    A behavior may be called as one of the keys all the same: its block tells.
    """
    return any(key in BEHAVIOR_KEYS and not _is_behavior(key, node) for key, node in behaviors.entries.items())


def _is_behavior(key: str, node: Node) -> bool:
    return isinstance(node, MapNode) and (key not in _BLOCKS or bool(BEHAVIOR_KEYS & node.entries.keys()))


def _read_behavior(
    layers: list[MapNode], key: str, findings: Findings, *, is_default: bool = False
) -> BehaviorSettings:
    block = Section(layers, findings)
    place = layers[-1].place if layers else Place(None, 0, key)
    is_later = [block.refuse_value("trainer_type", name, f"is {_NOT_YET}, or use ppo") for name in _LATER_TRAINERS]
    if any(is_later):
        # Its hyperparameters are not PPO's: checking them would bury the one fault that matters.
        return BehaviorSettings()
    block.refuse("self_play", f"self_play is {_NOT_YET}")
    trainer = block.take("trainer_type", kinds.choice(TRAINERS), "ppo")
    plain = BehaviorSettings()
    settings = BehaviorSettings(
        trainer_type=trainer,
        hyperparameters=_read_hyperparameters(block.child("hyperparameters"), trainer, place, findings),
        network_settings=read_network(block.child("network_settings")),
        reward_signals=read_signals(block, findings),
        init_path=block.take("init_path", kinds.optional(kinds.text("a path")), None),
        keep_checkpoints=block.whole("keep_checkpoints", BEHAVIOR, plain.keep_checkpoints),
        checkpoint_interval=block.whole("checkpoint_interval", BEHAVIOR, plain.checkpoint_interval),
        even_checkpoints=block.take("even_checkpoints", kinds.boolean(), plain.even_checkpoints),
        max_steps=block.whole("max_steps", BEHAVIOR, plain.max_steps),
        time_horizon=block.whole("time_horizon", BEHAVIOR, plain.time_horizon),
        summary_freq=block.whole("summary_freq", BEHAVIOR, plain.summary_freq),
        threaded=block.take("threaded", kinds.boolean(), plain.threaded),
        behavioral_cloning=read_cloning(block, trainer, None if is_default else place, findings),
    )
    block.close()
    _check_sequences(settings, block, place, findings)
    _warn_of_oddities(settings, block.place("time_horizon") or place, block.place("threaded") or place, findings)
    return settings


def _read_hyperparameters(block: Section, trainer: TrainerType, owner: Place, findings: Findings) -> PPOHyperparameters:
    if trainer in CLONING_TRAINERS:
        return read_cloning_hyperparameters(block, trainer, findings)
    schedule, plain = kinds.choice(SCHEDULES), PPOHyperparameters()
    for key in _SAC_KEYS:
        block.refuse(key, f"{key} belongs to the trainer sac, which is not supported yet; remove it")
    # As in ML-Agents: the two other schedules follow the learning rate's unless they are given.
    rate_schedule = block.take("learning_rate_schedule", schedule, plain.learning_rate_schedule)
    read = PPOHyperparameters(
        batch_size=block.whole("batch_size", HYPERPARAMETERS, plain.batch_size),
        buffer_size=block.whole("buffer_size", HYPERPARAMETERS, plain.buffer_size),
        learning_rate=block.real("learning_rate", HYPERPARAMETERS, plain.learning_rate),
        learning_rate_schedule=rate_schedule,
        beta=block.real("beta", HYPERPARAMETERS, plain.beta),
        beta_schedule=block.take("beta_schedule", schedule, rate_schedule),
        epsilon=block.real("epsilon", HYPERPARAMETERS, plain.epsilon),
        epsilon_schedule=block.take("epsilon_schedule", schedule, rate_schedule),
        lambd=block.real("lambd", HYPERPARAMETERS, plain.lambd),
        num_epoch=block.whole("num_epoch", HYPERPARAMETERS, plain.num_epoch),
        shared_critic=block.take("shared_critic", kinds.boolean(), plain.shared_critic),
    )
    block.close()
    misfit = batch_misfit(read)
    if misfit is not None and block.is_good("buffer_size", "batch_size"):
        place = block.place("buffer_size") or block.place("batch_size") or owner
        findings.add(Fault(place=place, problem=misfit.problem, allowed=misfit.allowed))
    return read


def _check_sequences(settings: BehaviorSettings, block: Section, owner: Place, findings: Findings) -> None:
    misfit = sequence_misfit(settings)
    if misfit is None:
        return
    network, hyper = block.child("network_settings"), block.child("hyperparameters")
    given = network.child("memory")
    asked = (given.place("sequence_length"), hyper.place("batch_size"))
    if any(each.place in asked for each in findings.faults):
        return  # it is not what was asked for that does not fit
    place = asked[0] or network.place("memory") or asked[1] or owner
    findings.add(Fault(place=place, problem=misfit.problem, allowed=misfit.allowed))


def _warn_of_oddities(settings: BehaviorSettings, horizon: Place, threaded: Place, findings: Findings) -> None:
    buffer_size = settings.hyperparameters.buffer_size
    if settings.time_horizon > buffer_size and settings.trainer_type not in CLONING_TRAINERS:
        findings.note(
            f"{horizon}: time_horizon {settings.time_horizon} is larger than buffer_size {buffer_size}; "
            "each update cuts the trajectories first",
        )
    if settings.threaded:
        findings.note(
            f"{threaded}: threaded has no effect here; --collection async lets players run on during an update"
        )
