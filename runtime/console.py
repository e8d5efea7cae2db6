"""Entrances of the installed commands, which load what they need only when Ctrl-C has become harmless."""

from __future__ import annotations

from typing import NoReturn

from runtime.interrupts import end_silently


def train() -> NoReturn:
    """`actor-ml-train`, the same as `python -m runtime.train`."""
    end_silently()
    from runtime.train import command  # noqa: PLC0415 - see the module

    command()
