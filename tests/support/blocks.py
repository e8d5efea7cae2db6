"""Blocks made from histories, joined and compared."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from runtime.experience.blocks import BlockBuilder
from runtime.experience.columns import BrainColumns, StepBlock
from tests.support.strategies_experience import ResetEvent, StepEvent, StepHistory


def replay(builder: BlockBuilder, history: StepHistory, cuts: set[int]) -> list[StepBlock]:
    """The blocks of a history: taken before each reset, at its end, and after the events numbered in `cuts`."""
    blocks, reset_id = [], 0
    for index, event in enumerate(history.events):
        if isinstance(event, ResetEvent):
            blocks.append(builder.take())
            reset_id += 1
            builder.record_reset(event.infos, reset_id=reset_id)
        else:
            builder.record_step(event.acted, event.infos)
        if index in cuts:
            blocks.append(builder.take())
    blocks.append(builder.take())
    return [block for block in blocks if block is not None]


def events_of(history: StepHistory, reset_id: int) -> tuple[ResetEvent | StepEvent, ...]:
    """The events from the reset of that number (from 1) to before the next."""
    starts = [index for index, event in enumerate(history.events) if isinstance(event, ResetEvent)]
    ends = [*starts[1:], len(history.events)]
    return history.events[starts[reset_id - 1] : ends[reset_id - 1]]


def arrays_of(columns: BrainColumns) -> dict[str, np.ndarray | None]:
    apart = {"observations", "memories", "shows_ends"}
    named = {each.name: getattr(columns, each.name) for each in fields(columns) if each.name not in apart}
    if columns.memories is not None:
        named |= {f"memories {each.name}": getattr(columns.memories, each.name) for each in fields(columns.memories)}
    return named | {f"observation {index}": each for index, each in enumerate(columns.observations)}


def assert_same_columns(found: BrainColumns, wanted: BrainColumns) -> None:
    assert found.shows_ends == wanted.shows_ends
    ours, theirs = arrays_of(found), arrays_of(wanted)
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        other = theirs[name]
        if array is None or other is None:
            assert array is other, name
        else:
            assert array.dtype == other.dtype, name
            np.testing.assert_array_equal(array, other, err_msg=name)


def assert_same_block(found: StepBlock, wanted: StepBlock) -> None:
    for each in fields(found):
        if each.name != "brains":
            assert getattr(found, each.name) == getattr(wanted, each.name), each.name
    assert found.brains.keys() == wanted.brains.keys()
    for name, columns in found.brains.items():
        assert_same_columns(columns, wanted.brains[name])


def join_columns(first: BrainColumns, second: BrainColumns, shift: int) -> BrainColumns:
    """Two blocks' columns as one; the second block's steps come `shift` later."""
    rows = [len(first.row_steps), len(second.row_steps)]
    joined: dict[str, object] = {}
    for each in fields(BrainColumns):
        left, right = getattr(first, each.name), getattr(second, each.name)
        if each.name == "memories":
            assert left is right is None, "which memories are kept depends on the cut"
        elif each.name == "shows_ends":
            joined[each.name] = left and right
        elif each.name == "observations":
            joined[each.name] = tuple(np.concatenate(pair) for pair in zip(left, right, strict=True))
        elif each.name == "masks":
            width = next((mask.shape[1] for mask in (left, right) if mask is not None), None)
            filled = [
                np.ones((count, width or 0), np.bool_) if mask is None else mask
                for count, mask in zip(rows, (left, right), strict=True)
            ]
            joined[each.name] = None if width is None else np.concatenate(filled)
        else:
            offset = np.int32(shift) if each.name in {"action_steps", "row_steps"} else 0
            joined[each.name] = np.concatenate([left, (right + offset).astype(right.dtype)])
    return replace(first, **joined)  # type: ignore[arg-type] # a field each, by name
