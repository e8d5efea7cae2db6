"""One rule for each setting: what a file is told, settings made in code are told in the same words."""

from dataclasses import replace
from pathlib import Path

import pytest

from runtime.errors import ConfigError
from runtime.learner import (
    BehaviorSettings,
    CloningSettings,
    CuriositySettings,
    MemorySettings,
    NetworkSettings,
    PPOHyperparameters,
    RewardSignalSettings,
)
from runtime.learner_rules import BEHAVIOR, CURIOSITY, HYPERPARAMETERS, MEMORY, NETWORK, SIGNAL, settings_faults
from runtime.learner_rules import CLONING as CLONING_RULES
from tests.support.settings import parse_text

PLAIN = BehaviorSettings()
BAD = -1.5
BLOCKS = {
    "": BEHAVIOR,
    "hyperparameters.": HYPERPARAMETERS,
    "network_settings.": NETWORK,
    "network_settings.memory.": MEMORY,
}
KEYS = [(path, key) for path, rules in BLOCKS.items() for key in (*rules.whole, *rules.real)]


def changed(settings: object, path: str, key: str, value: object) -> object:
    """The settings with one value changed below `path`, of which a part that is not there begins with its defaults."""
    name, _, rest = path.partition(".")
    if not name:
        return replace(settings, **{key: value})  # type: ignore[type-var] # a dataclass
    inner = getattr(settings, name) or MemorySettings()
    return replace(settings, **{name: changed(inner, rest, key, value)})  # type: ignore[type-var] # as above


@pytest.mark.parametrize(("path", "key"), KEYS)
def test_a_value_that_breaks_a_rule_is_refused_in_the_words_of_a_file(tmp_path: Path, path: str, key: str) -> None:
    settings = changed(PLAIN, path, key, BAD)
    assert isinstance(settings, BehaviorSettings)
    (fault,) = settings_faults(settings)
    lines, indent = "behaviors:\n  Bot:\n", "    "
    for name in path.split(".")[:-1]:
        lines, indent = f"{lines}{indent}{name}:\n", indent + "  "
    with pytest.raises(ConfigError) as caught:
        parse_text(tmp_path, f"{lines}{indent}{key}: {BAD}\n")
    assert str(caught.value).endswith(fault)


def test_all_settings_by_default_keep_the_rules() -> None:
    signals = {"extrinsic": RewardSignalSettings(), "curiosity": CuriositySettings()}
    assert settings_faults(replace(PLAIN, reward_signals=signals, behavioral_cloning=CloningSettings())) == ()


def test_signals_and_demonstrations_have_rules_too() -> None:
    curious = CuriositySettings(gamma=2.0, learning_rate=0.0, network_settings=NetworkSettings(hidden_units=0))
    cloning = CloningSettings(strength=-1.0, steps=-1, batch_size=0)
    found = settings_faults(replace(PLAIN, reward_signals={"curiosity": curious}, behavioral_cloning=cloning))
    assert [each.partition(": ")[0] for each in found] == [
        "reward_signals.curiosity.gamma",
        "reward_signals.curiosity.learning_rate",
        "reward_signals.curiosity.network_settings.hidden_units",
        "behavioral_cloning.steps",
        "behavioral_cloning.batch_size",
        "behavioral_cloning.strength",
    ]
    assert {*SIGNAL.real, *CURIOSITY.real} == {"gamma", "strength", "learning_rate"}
    assert "batches_per_epoch" in CLONING_RULES.whole


def test_a_truth_value_is_no_number() -> None:
    hyper = PPOHyperparameters(batch_size=True, beta=False)
    assert len(settings_faults(replace(PLAIN, hyperparameters=hyper))) == 2
