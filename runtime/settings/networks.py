"""Reads blocks of `network_settings`."""

from __future__ import annotations

from typing import Final

from runtime.learner import MemorySettings, NetworkSettings
from runtime.learner_rules import MEMORY, NETWORK
from runtime.settings import kinds
from runtime.settings.sections import Section

ENCODERS: Final = ("fully_connected", "match3", "simple", "nature_cnn", "resnet")


def read_network(block: Section) -> NetworkSettings:
    """The block; keys that are not there have their defaults."""
    plain = NetworkSettings()
    read = NetworkSettings(
        normalize=block.take("normalize", kinds.boolean(), plain.normalize),
        hidden_units=block.whole("hidden_units", NETWORK, plain.hidden_units),
        num_layers=block.whole("num_layers", NETWORK, plain.num_layers),
        vis_encode_type=block.take("vis_encode_type", kinds.choice(ENCODERS), plain.vis_encode_type),
        goal_conditioning_type=block.take(
            "goal_conditioning_type",
            kinds.choice(("hyper", "none")),
            plain.goal_conditioning_type,
        ),
        deterministic=block.take("deterministic", kinds.boolean(), plain.deterministic),
        memory=_read_memory(block),
    )
    block.close()
    return read


def _read_memory(network: Section) -> MemorySettings | None:
    memory, plain = network.child("memory"), MemorySettings()
    read = MemorySettings(
        memory_size=memory.whole("memory_size", MEMORY, plain.memory_size),
        sequence_length=memory.whole("sequence_length", MEMORY, plain.sequence_length),
    )
    memory.close()
    return None if network.is_null("memory") else read
