"""Reads the block `reward_signals`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from runtime.learner import CuriositySettings, RewardSignalSettings
from runtime.learner_rules import CURIOSITY, SIGNAL, WIDTH, BlockRules
from runtime.settings import kinds
from runtime.settings.faults import Fault, Findings
from runtime.settings.networks import read_network
from runtime.settings.sections import Section

_LATER_SIGNALS: Final = ("gail", "rnd")


def read_signals(block: Section, findings: Findings) -> dict[str, RewardSignalSettings]:
    """The signals of a behavior by name, in the order of the file; the player's reward alone when it names none."""
    place = block.place("reward_signals")
    signals = block.child("reward_signals")
    if place is None:
        return {"extrinsic": RewardSignalSettings()}
    for name in _LATER_SIGNALS:
        signals.refuse(name, f"the reward signal {name} is not supported yet; remove it")
    read = {
        name: _READERS[name](signals.child(name), findings)
        for name in signals.names()
        if name in _READERS and not signals.is_null(name)
    }
    if not read:
        # A name with nothing beneath it is null to YAML, and whoever writes it means the defaults.
        if not set(signals.names()) & {"extrinsic", *_LATER_SIGNALS}:
            allowed = " or ".join(_READERS)
            findings.add(Fault(place=place, problem="there is no reward signal to learn from", allowed=allowed))
        read["extrinsic"] = RewardSignalSettings()
    for name in _READERS:
        signals.ignore(name)
    signals.close()
    return read


def _read_extrinsic(signal: Section, findings: Findings) -> RewardSignalSettings:
    del findings
    gamma, strength = _stream(signal)
    # ML-Agents writes this block into each configuration.yaml; the extrinsic signal has no network to apply it to.
    read_network(signal.child("network_settings"))
    signal.close()
    return RewardSignalSettings(gamma=gamma, strength=strength)


def _read_curiosity(signal: Section, findings: Findings) -> RewardSignalSettings:
    plain = CuriositySettings()
    gamma, strength = _stream(signal, CURIOSITY)
    network = read_network(signal.child("network_settings"))
    # The name that hidden_units had before; as in ML-Agents it counts where both are given.
    size = signal.take("encoding_size", kinds.optional(kinds.whole(WIDTH)), None)
    given = signal.child("network_settings")
    for key, says_nothing in (("normalize", network.normalize is False), ("memory", network.memory is None)):
        if not says_nothing:
            findings.note(
                f"{given.place(key)}: {key} has no effect in a reward signal; curiosity sees the observations as the "
                "policy does, and remembers nothing"
            )
    read = CuriositySettings(
        gamma=gamma,
        strength=strength,
        learning_rate=signal.real("learning_rate", CURIOSITY, plain.learning_rate),
        network_settings=replace(network, hidden_units=size or network.hidden_units, memory=None, normalize=False),
    )
    signal.close()
    return read


def _stream(signal: Section, strengths: BlockRules = SIGNAL) -> tuple[float, float]:
    """Its `gamma` and `strength`; strengths: the rules for the latter."""
    plain = RewardSignalSettings()
    gamma = signal.real("gamma", SIGNAL, plain.gamma)
    return gamma, signal.real("strength", strengths, plain.strength)


_READERS: Final[Mapping[str, Callable[[Section, Findings], RewardSignalSettings]]] = MappingProxyType(
    {"extrinsic": _read_extrinsic, "curiosity": _read_curiosity},
)
