"""Names of the two protocol generations: what their players call, and which versions of each we take."""

from __future__ import annotations

from typing import Literal

Generation = Literal[1, 2]
"""1: players of API-8, API-9 and API-10 (ML-Agents 0.8 to 0.10). 2: players of communicator 1.x."""

EXCHANGE_PATH = "/communicator_objects.UnityToExternalProto/Exchange"
EXCHANGE_PATH_GEN1 = "/communicator_objects.UnityToExternal/Exchange"
COMMUNICATION_VERSION = "1.5.0"
GEN1_VERSIONS = ("API-8", "API-9", "API-10")
WE_SPEAK = f"{COMMUNICATION_VERSION} and takes any 1.x and {', '.join(GEN1_VERSIONS)}"
