"""The memory of a recurrent network is read with its rules, and what breaks one is refused by it."""

from pathlib import Path

import pytest

from runtime.errors import ConfigError
from runtime.learner import MemorySettings
from runtime.settings.writing import to_yaml
from tests.support.settings import parse_text


def behavior(lines: str) -> str:
    """A file with one behavior."""
    body = "".join(f"    {line}\n" for line in lines.splitlines())
    return f"behaviors:\n  Bot:\n{body}"


def fault_of(folder: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_text(folder, text)
    return str(caught.value)


@pytest.mark.parametrize("size", ["0", "7", "-2", "12.5"])
def test_c37_a_memory_size_that_cannot_be_halved_is_refused_with_the_rule(tmp_path: Path, size: str) -> None:
    fault = fault_of(tmp_path, behavior(f"network_settings: {{memory: {{memory_size: {size}}}}}"))
    assert "memory.memory_size" in fault
    assert "a multiple of 2 from 2 to 65536" in fault


@pytest.mark.parametrize("memory", ["{sequence_length: 64}", "{memory_size: 8}"])
def test_c37_a_sequence_longer_than_a_batch_is_refused_with_the_rule(tmp_path: Path, memory: str) -> None:
    lines = f"hyperparameters: {{batch_size: 32}}\nnetwork_settings: {{memory: {memory}}}"
    fault = fault_of(tmp_path, behavior(lines))
    assert "sequence_length 64 is larger than batch_size 32" in fault
    assert "at most batch_size" in fault


def test_a_sequence_that_is_refused_by_itself_is_not_blamed_for_a_length_that_nobody_gave(tmp_path: Path) -> None:
    lines = "hyperparameters: {batch_size: 32}\nnetwork_settings: {memory: {sequence_length: 0}}"
    (fault,) = fault_of(tmp_path, behavior(lines)).splitlines()
    assert "memory.sequence_length: 0" in fault


def test_a_memory_is_read_with_its_defaults_and_null_switches_it_off(tmp_path: Path) -> None:
    read = parse_text(tmp_path, behavior("network_settings: {memory: {memory_size: 6}}")).behaviors["Bot"]
    assert read.network_settings.memory == MemorySettings(memory_size=6, sequence_length=64)
    text = "default_settings: {network_settings: {memory: {memory_size: 256}}}\n"
    inherited = parse_text(tmp_path, text + behavior("network_settings: {num_layers: 1}")).behaviors["Bot"]
    assert inherited.network_settings.memory == MemorySettings(memory_size=256, sequence_length=64)
    off = parse_text(tmp_path, text + behavior("network_settings: {memory: null}")).behaviors["Bot"]
    assert off.network_settings.memory is None


def test_a_written_memory_is_read_again(tmp_path: Path) -> None:
    lines = "network_settings: {memory: {memory_size: 6, sequence_length: 9}}"
    written = parse_text(tmp_path, behavior(lines))
    again = parse_text(tmp_path, to_yaml(written, player_seeds={}))
    assert again.behaviors["Bot"].network_settings.memory == MemorySettings(memory_size=6, sequence_length=9)
