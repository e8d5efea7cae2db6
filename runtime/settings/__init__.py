"""One `RunSettings` out of the `behaviors:` YAML and the command line; every range check, once.

Nothing here imports a learning, actor or network library: a wrong configuration is answered at once.
"""

from runtime.settings.blocks import Surroundings
from runtime.settings.faults import Fault, FaultsError
from runtime.settings.model import (
    CheckpointSettings,
    ConstantParameter,
    Editor,
    EngineSettings,
    EnvironmentSettings,
    EnvTarget,
    Executable,
    FakeScene,
    GaussianSampler,
    MultiRangeUniformSampler,
    ParameterSettings,
    RestartLimits,
    RunSettings,
    UniformSampler,
)
from runtime.settings.names import behavior_name, clean_name
from runtime.settings.parsing import parse_run_settings
from runtime.settings.writing import recorded_seed, to_yaml

__all__ = [
    "CheckpointSettings",
    "ConstantParameter",
    "Editor",
    "EngineSettings",
    "EnvTarget",
    "EnvironmentSettings",
    "Executable",
    "FakeScene",
    "Fault",
    "FaultsError",
    "GaussianSampler",
    "MultiRangeUniformSampler",
    "ParameterSettings",
    "RestartLimits",
    "RunSettings",
    "Surroundings",
    "UniformSampler",
    "behavior_name",
    "clean_name",
    "parse_run_settings",
    "recorded_seed",
    "to_yaml",
]
