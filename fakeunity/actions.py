"""The trainer's actions, checked more strictly than Unity would: what a world gets is complete and legal."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from fakeunity.bounds import some
from fakeunity.dialect import ActionLists
from fakeunity.errors import TrainerMistakeError
from fakeunity.rows import Actions, BehaviorSpec, Ints, Rows


def read_actions(spec: BehaviorSpec, rows: Rows, received: ActionLists) -> Actions:
    """The action rows received for the waiting agents of `rows`, the rows last sent, one for each.

    Raises TrainerMistakeError when their width is wrong, a discrete action is out of range, no whole number or masked,
    or a continuous one is not finite.
    """
    continuous = _table(spec, "continuous", received.continuous, spec.continuous)
    discrete = _table(spec, "discrete", received.discrete, len(spec.branches))
    # In the old generation they are floats on the wire.
    if discrete.dtype.kind == "f" and not ((discrete == np.rint(discrete)) & (np.abs(discrete) < 2.0**31)).all():
        raise TrainerMistakeError(f"behavior {spec.name!r}: discrete actions {discrete.tolist()} are no whole numbers")
    actions = Actions(continuous.astype(np.float32, copy=False), discrete.astype(np.int64, copy=False))
    if spec.continuous and not np.isfinite(actions.continuous).all():
        agent, column = (int(place) for place in np.argwhere(~np.isfinite(actions.continuous))[0])
        raise TrainerMistakeError(
            f"behavior {spec.name!r}, agent {rows.waiting()[agent]}: continuous action {column} is "
            f"{actions.continuous[agent, column]}; only finite numbers are actions"
        )
    if spec.branches:
        _check_branches(spec, rows, actions)
    return actions


def _table(
    spec: BehaviorSpec, kind: str, rows: Sequence[Sequence[float]] | NDArray[np.number], width: int
) -> NDArray[np.number]:
    widths = {rows.shape[1]} if isinstance(rows, np.ndarray) else {len(values) for values in rows}
    if widths - {width}:
        raise TrainerMistakeError(
            f"behavior {spec.name!r}: an action row of {max(widths - {width})} {kind} actions arrived, expected {width}"
        )
    if isinstance(rows, np.ndarray):
        return rows
    if not width:
        return np.zeros((len(rows), 0), np.int64)
    return np.array([value for values in rows for value in values]).reshape(len(rows), width)


@cache
def _sizes(branches: tuple[int, ...]) -> Ints:
    return np.array(branches, np.int64)


def _check_branches(spec: BehaviorSpec, rows: Rows, actions: Actions) -> None:
    discrete, sizes = actions.discrete, _sizes(spec.branches)
    wrong = discrete.view(np.uint64) >= sizes.view(np.uint64)  # below 0 is far above every size there
    is_wrong = some(wrong)
    if not is_wrong and rows.mask is not None:
        offsets = np.cumsum(sizes) - sizes
        mask = rows.mask[~rows.done]
        wrong = np.take_along_axis(mask, discrete + offsets, axis=1)
        is_wrong = some(wrong)
    if not is_wrong:
        return
    agent, branch = (int(place) for place in np.argwhere(wrong)[0])
    action, size = int(discrete[agent, branch]), int(sizes[branch])
    reason = f"is masked for it; {size} actions, see action_mask" if 0 <= action < size else f"is not in 0..{size - 1}"
    raise TrainerMistakeError(
        f"behavior {spec.name!r}, agent {rows.waiting()[agent]}, branch {branch}: action {action} {reason}"
    )
