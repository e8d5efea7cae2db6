"""The settings of a behavior as the rows of a table, for TensorBoard's text `Hyperparameters`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict

from runtime.learner import BehaviorSettings
from runtime.reporting.lines import printable


def hyperparameter_rows(settings: BehaviorSettings) -> list[tuple[str, str]]:
    """(name, value) of every setting, the names as in a configuration file with dots between their parts."""
    return [("Setting", "Value"), *_rows("", asdict(settings))]


def _rows(above: str, settings: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for name, value in settings.items():
        path = f"{above}{name}"
        if isinstance(value, Mapping):
            yield from _rows(f"{path}.", value)
        else:
            yield printable(path), printable(str(value))
