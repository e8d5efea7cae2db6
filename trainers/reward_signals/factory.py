"""Makes reward signals by their names."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

from runtime.errors import UsageError
from runtime.learner import BehaviorSettings
from trainers.reward_signals.curiosity import make_curiosity
from trainers.reward_signals.extrinsic import make_extrinsic
from trainers.reward_signals.signal import RewardSignal

SIGNALS: Mapping[str, Callable[..., RewardSignal]] = MappingProxyType(
    {"extrinsic": make_extrinsic, "curiosity": make_curiosity},
)
LATER = ("gail", "rnd")


def make_signal(name: str, keywords: Mapping[str, Any]) -> RewardSignal:
    """The signal of that name. Raises UsageError for an unknown name or keyword, and names it and what is known."""
    if name in LATER:
        raise UsageError(f"the reward signal {name!r} is not supported yet; expected {_listed(SIGNALS)}. Remove it.")
    if name not in SIGNALS:
        raise UsageError(
            f"there is no reward signal {name!r}{_nearest(name, SIGNALS)}; expected {_listed(SIGNALS)}. Change its "
            "name in reward_signals."
        )
    known = inspect.signature(SIGNALS[name]).parameters
    unknown = [each for each in keywords if each not in known]
    if unknown:
        raise UsageError(
            f"the reward signal {name!r} knows no keyword {unknown[0]!r}{_nearest(unknown[0], known)}; expected "
            f"{_listed(known)}. Remove it, or correct its name."
        )
    return SIGNALS[name](**keywords)


def signals_of(settings: BehaviorSettings) -> tuple[RewardSignal, ...]:
    """The signals of a behavior, in the order of its settings. Raises UsageError as `make_signal`."""
    return tuple(
        make_signal(name, {each.name: getattr(one, each.name) for each in fields(one)})
        for name, one in settings.reward_signals.items()
    )


def _listed(words: Mapping[str, object]) -> str:
    return " or ".join(words) if len(words) < 3 else ", ".join(words)


def _nearest(word: str, known: Mapping[str, object]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f" (nearest: {close[0]})" if close else ""
