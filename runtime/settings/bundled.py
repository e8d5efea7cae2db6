"""The configurations that come with the package, one for each scene."""

from __future__ import annotations

from importlib import resources

from runtime.settings.nodes import MapNode
from runtime.settings.yaml_reader import read_yaml


def bundled_configuration(scene: str) -> MapNode | None:
    """The configuration of a scene; None when the package has none."""
    resource = resources.files("runtime").joinpath("configs", f"{scene}.yaml")
    if not resource.is_file():
        return None
    return read_yaml(resource.read_bytes(), f"{scene}.yaml (bundled)")
