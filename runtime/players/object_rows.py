"""Rows of a user's environment object, checked as strictly as those of a player, with the dtypes that we promise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from runtime.experience.brains import (
    AllBrainInfo,
    Bools,
    BrainInfo,
    BrainParameters,
    DecisionRows,
    EnvId,
    Ids,
    Observation,
    ObservationSpec,
    TerminalRows,
    empty_rows,
)
from runtime.players.places import Place


def checked_infos(infos: Mapping[str, BrainInfo], brains: Mapping[str, BrainParameters], place: Place) -> AllBrainInfo:
    """The same rows for every known brain, none for those left out.

    Raises PlayerContentError for wrong types, wrong shapes and not finite numbers, PlayerProtocolError for a brain that
    `external_brains` does not name and for an agent that asks for two decisions.
    """
    for name, info in infos.items():
        if name not in brains:
            raise place.protocol_error(
                f"rows of brain {name!r}, which external_brains does not name: {sorted(brains)}."
            )
        if not isinstance(info, BrainInfo):
            raise place.content_error(
                f"brain {name!r} is given as a {type(info).__name__}; expected runtime.experience.brains.BrainInfo."
            )
    return {
        name: _checked(infos[name], _Checker(brain, place))
        if name in infos
        else BrainInfo(*empty_rows(brain), EnvId(place.env_id))
        for name, brain in brains.items()
    }


class _Checker:
    """Turns one brain's arrays into the promised ones, or says what is wrong with them."""

    def __init__(self, brain: BrainParameters, place: Place) -> None:
        self.brain = brain
        self.place = place
        self.ids: Ids = np.zeros(0, np.int64)

    def agents(self, value: Any) -> Ids:
        """The ids of the rows that are checked next."""
        self.ids = self.array(value, (len(value),), np.int64, "agents")
        return self.ids

    # `Any`: a user's array, list or whatever; the result has the dtype that was asked for.
    def array(self, value: Any, shape: tuple[int, ...], dtype: npt.DTypeLike, field: str) -> Any:
        try:
            array = np.asarray(value, dtype)
        except (TypeError, ValueError) as error:
            raise self.place.content_error(f"brain {self.brain.brain_name!r}: {field} is no array: {error}.") from error
        if array.shape != shape:
            raise self.place.content_error(
                f"brain {self.brain.brain_name!r}: {field} has shape {array.shape}, expected {shape}."
            )
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            at = tuple(int(each) for each in np.argwhere(~np.isfinite(array))[0])
            index = f" at index {at[1] if len(at) == 2 else at[1:]}" if at[1:] else ""
            raise self.place.content_error(
                f"brain {self.brain.brain_name!r}, agent {int(self.ids[at[0]])}: {field}{index} is {array[at]}; "
                "expected a finite number."
            )
        return array

    def observations(self, value: tuple[Observation, ...], count: int) -> tuple[Observation, ...]:
        specs = self.brain.observation_specs
        if len(value) != len(specs):
            raise self.place.content_error(
                f"brain {self.brain.brain_name!r}: {len(value)} observations, expected {len(specs)}."
            )
        return tuple(
            self.array(
                self.bytes_only(each, spec, index) if spec.dtype == "uint8" else each,
                (count, *spec.shape),
                np.uint8 if spec.dtype == "uint8" else np.float32,
                f"observation {index} ({spec.name!r})",
            )
            for index, (each, spec) in enumerate(zip(value, specs, strict=True))
        )

    # `Any`: as above.
    def bytes_only(self, value: Any, spec: ObservationSpec, index: int) -> Any:
        """The value, unless it holds numbers that bytes would change without a word."""
        if getattr(value, "dtype", None) != np.uint8:
            raise self.place.content_error(
                f"brain {self.brain.brain_name!r}: observation {index} ({spec.name!r}) is announced as uint8 and given "
                f"as {getattr(value, 'dtype', type(value).__name__)}; give an array of uint8, 0 to 255."
            )
        return value


def _checked(info: BrainInfo, check: _Checker) -> BrainInfo:
    rows, ends = info.decisions, info.terminals
    count, ended = len(rows.agents), len(ends.agents)
    decisions = DecisionRows(
        agents=check.agents(rows.agents),
        observations=check.observations(rows.observations, count),
        rewards=check.array(rows.rewards, (count,), np.float32, "reward"),
        action_masks=_checked_masks(rows.action_masks, count, check),
        group_ids=check.array(rows.group_ids, (count,), np.int32, "group_id"),
        group_rewards=check.array(rows.group_rewards, (count,), np.float32, "group_reward"),
    )
    if len(np.unique(decisions.agents)) != count:
        raise check.place.protocol_error(
            f"brain {check.brain.brain_name!r}: an agent asks for two decisions at once: {decisions.agents.tolist()}."
        )
    terminals = TerminalRows(
        agents=check.agents(ends.agents),
        observations=check.observations(ends.observations, ended),
        rewards=check.array(ends.rewards, (ended,), np.float32, "reward"),
        interrupted=check.array(ends.interrupted, (ended,), np.bool_, "interrupted"),
        group_ids=check.array(ends.group_ids, (ended,), np.int32, "group_id"),
        group_rewards=check.array(ends.group_rewards, (ended,), np.float32, "group_reward"),
    )
    return BrainInfo(decisions, terminals, EnvId(check.place.env_id))


def _checked_masks(masks: Bools | None, count: int, check: _Checker) -> Bools | None:
    spec = check.brain.action_spec
    if masks is None or not spec.mask_size:
        return None
    allowed: Bools = check.array(masks, (count, spec.mask_size), np.bool_, "action_masks")
    starts = np.cumsum((0, *spec.discrete_branches[:-1]))
    if not np.logical_or.reduceat(allowed, starts, axis=1).all():
        raise check.place.content_error(
            f"brain {check.brain.brain_name!r}: action_masks forbid all actions of a branch of an agent."
        )
    return None if allowed.all() else allowed
