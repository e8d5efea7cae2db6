"""Conformance checks as plain functions: of a player, and of a client that drives players. They need no pytest."""

from fakeunity.testing.contract import ENVIRONMENT_RULES, PLAYER_RULES, ConformanceError
from fakeunity.testing.environment_check import Environment, EnvironmentFacts, check_environment
from fakeunity.testing.player_check import PlayerFacts, Talks, check_player
from fakeunity.testing.serving import ServedPlayer

__all__ = [
    "ENVIRONMENT_RULES",
    "PLAYER_RULES",
    "ConformanceError",
    "Environment",
    "EnvironmentFacts",
    "PlayerFacts",
    "ServedPlayer",
    "Talks",
    "check_environment",
    "check_player",
]
