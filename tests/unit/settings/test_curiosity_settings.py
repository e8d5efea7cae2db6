"""The reward signal curiosity in files of both times: keys, defaults, and what a written configuration says of it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.learner import CuriositySettings, NetworkSettings, RewardSignalSettings
from runtime.settings import to_yaml
from runtime.settings.writing import to_converted_yaml
from tests.support.settings import parse, parse_text
from tests.unit.settings.test_yaml_faults import faults_of


def signals(folder: Path, lines: str) -> dict[str, RewardSignalSettings]:
    """The signals of behavior Bot in a file of today."""
    indented = "".join(f"      {line}\n" for line in lines.splitlines())
    read = parse_text(folder, f"behaviors:\n  Bot:\n    reward_signals:\n{indented}")
    return dict(read.settings_for("Bot").reward_signals)


def test_curiosity_alone_has_the_defaults_of_ml_agents(tmp_path: Path) -> None:
    found = signals(tmp_path, "curiosity: {}")
    assert found == {"curiosity": CuriositySettings()}
    plain = CuriositySettings()
    assert (plain.gamma, plain.strength, plain.learning_rate) == (0.99, 1.0, 3e-4)
    assert plain.network_settings.hidden_units == 128


def test_every_key_is_read_and_signals_keep_their_order(tmp_path: Path) -> None:
    found = signals(
        tmp_path,
        "curiosity: {gamma: 0.9, strength: 0.02, learning_rate: 1.0e-3,\n"
        "  network_settings: {hidden_units: 32, num_layers: 1, vis_encode_type: resnet}}\n"
        "extrinsic: {gamma: 0.95, strength: 2}",
    )
    network = NetworkSettings(hidden_units=32, num_layers=1, vis_encode_type="resnet")
    curious = CuriositySettings(gamma=0.9, strength=0.02, learning_rate=1e-3, network_settings=network)
    assert list(found.items()) == [("curiosity", curious), ("extrinsic", RewardSignalSettings(gamma=0.95, strength=2))]


def test_a_bonus_below_nothing_is_refused_and_a_reward_turned_round_is_not(tmp_path: Path) -> None:
    (fault,) = faults_of(tmp_path, "behaviors:\n  Bot:\n    reward_signals:\n      curiosity: {strength: -0.5}\n")
    assert "reward_signals.curiosity.strength: -0.5" in fault
    assert signals(tmp_path, "extrinsic: {strength: -0.5}")["extrinsic"].strength == -0.5


def test_the_old_name_of_the_encoders_size_counts(tmp_path: Path) -> None:
    found = signals(tmp_path, "curiosity: {encoding_size: 64, network_settings: {hidden_units: 32, num_layers: 3}}")
    assert found["curiosity"] == CuriositySettings(network_settings=NetworkSettings(hidden_units=64, num_layers=3))


@pytest.mark.parametrize("key", ["normalize: true", "memory: {memory_size: 32}"])
def test_what_a_signals_network_cannot_have_is_warned_of(tmp_path: Path, key: str) -> None:
    text = f"behaviors:\n  Bot:\n    reward_signals:\n      curiosity:\n        network_settings:\n          {key}\n"
    settings = parse_text(tmp_path, text)
    name = key.partition(":")[0]
    (warning,) = settings.warnings
    assert warning.startswith(f"trainer.yaml:6: behaviors.Bot.reward_signals.curiosity.network_settings.{name}: ")
    assert f"{name} has no effect in a reward signal" in warning
    assert settings.settings_for("Bot").reward_signals["curiosity"] == CuriositySettings()


@given(
    gamma=st.floats(0, 1),
    strength=st.floats(0, 10),
    rate=st.floats(1e-6, 1.0),
    units=st.integers(1, 512),
    has_extrinsic=st.booleans(),
)
def test_the_written_configuration_is_read_as_the_same(
    tmp_path_factory: pytest.TempPathFactory,
    gamma: float,
    strength: float,
    rate: float,
    units: int,
    *,
    has_extrinsic: bool,
) -> None:
    folder = tmp_path_factory.mktemp("written")
    extrinsic = "extrinsic: {gamma: 0.5}\n" if has_extrinsic else ""
    lines = f"curiosity: {{gamma: {gamma!r}, strength: {strength!r}, learning_rate: {rate!r}, encoding_size: {units}}}"
    indented = "".join(f"      {line}\n" for line in (extrinsic + lines).splitlines())
    settings = parse_text(folder, f"behaviors:\n  Bot:\n    reward_signals:\n{indented}")
    (folder / "again.yaml").write_text(to_yaml(settings), encoding="utf-8")
    again = parse(str(folder / "again.yaml"))
    assert again.settings_for("Bot") == settings.settings_for("Bot")
    curious = again.settings_for("Bot").reward_signals["curiosity"]
    assert isinstance(curious, CuriositySettings)
    assert (curious.gamma, curious.strength, curious.learning_rate) == (gamma, strength, rate)


def test_a_behavior_without_a_signal_of_the_defaults_is_written_so(tmp_path: Path) -> None:
    text = "default_settings: {reward_signals: {extrinsic: {}, curiosity: {strength: 0.5}}}\n"
    text += "behaviors: {Bot: {reward_signals: {curiosity: null}}, Other: {}}\n"
    settings = parse_text(tmp_path, text)
    (tmp_path / "again.yaml").write_text(to_yaml(settings), encoding="utf-8")
    for read in (settings, parse(str(tmp_path / "again.yaml"))):
        assert list(read.settings_for("Bot").reward_signals) == ["extrinsic"]
        assert list(read.settings_for("Other").reward_signals) == ["extrinsic", "curiosity"]


ERA = "default: {trainer: ppo, gamma: 0.9, hidden_units: 16}\n"


def test_the_keys_before_reward_signals_ask_for_curiosity(tmp_path: Path) -> None:
    text = ERA + "Bot: {use_curiosity: true, curiosity_strength: 0.05, curiosity_enc_size: 32}\nLazy: {}\n"
    settings = parse_text(tmp_path, text)
    network = NetworkSettings(hidden_units=32)
    assert settings.settings_for("Bot").reward_signals == {
        "extrinsic": RewardSignalSettings(gamma=0.9),
        "curiosity": CuriositySettings(gamma=0.9, strength=0.05, network_settings=network),
    }
    assert not [each for each in settings.warnings if "curiosity" in each]
    assert list(settings.settings_for("Lazy").reward_signals) == ["extrinsic"]


def test_signals_of_2019_are_read_and_passes_of_their_own_are_told_to_be_none(tmp_path: Path) -> None:
    text = ERA + "Bot:\n  reward_signals:\n    extrinsic: {strength: 1.0, gamma: 0.99}\n"
    text += "    curiosity:\n      strength: 0.02\n      gamma: 0.98\n      encoding_size: 256\n      num_epoch: 3\n"
    settings = parse_text(tmp_path, text)
    network = NetworkSettings(hidden_units=256)
    expected = CuriositySettings(gamma=0.98, strength=0.02, network_settings=network)
    assert settings.settings_for("Bot").reward_signals["curiosity"] == expected
    expected_warning = "trainer.yaml:9: Bot.reward_signals.curiosity.num_epoch: num_epoch has no effect; curiosity "
    assert settings.warnings[-1] == expected_warning + "learns in the passes of the policy"


def test_a_converted_file_asks_for_the_same_curiosity(tmp_path: Path) -> None:
    settings = parse_text(tmp_path, ERA + "Bot: {use_curiosity: true, curiosity_enc_size: 32}\n")
    (tmp_path / "new.yaml").write_text(to_converted_yaml(settings), encoding="utf-8")
    again = parse(str(tmp_path / "new.yaml"))
    assert again.settings_for("Bot").reward_signals == settings.settings_for("Bot").reward_signals


def test_an_unknown_key_of_a_signal_of_2019_is_named_with_its_line(tmp_path: Path) -> None:
    text = ERA + "Bot:\n  reward_signals:\n    curiosity: {strength: 0.02, gama: 0.98}\n    gail: {demo_path: x}\n"
    faults = faults_of(tmp_path, text)
    assert any("reward_signals.curiosity.gama: unknown key; nearest: gamma" in each for each in faults)
    assert any("the reward signal gail is not supported yet" in each for each in faults)
