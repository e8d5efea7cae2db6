"""Rows as the bytes of a ListAgentInfoProto.

They are written without a protobuf object per agent: all agents of one shape of message (with a reward or without,
done or not, ...) have equally long encodings, so one numpy record type fills a whole block of them at once. Pictures,
whose lengths differ, are put in afterwards. What comes out is exactly what a protobuf library would have written from
the same values, fields at their default left out.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fakeunity.bounds import some
from fakeunity.formats import Format
from fakeunity.row_plans import RowPlans
from fakeunity.rows import BehaviorSpec, ImageSpec, Ints, ObservationSpec, Rows
from fakeunity.sensors import Camera, field, varint, vector

# Tags are field number * 8 + wire type; 2 is length-delimited, 5 four bytes, 0 a varint.
_LIST_VALUE = b"\x0a"
_REWARD, _DONE, _MAX_STEP, _ID = b"\x3d", b"\x40\x01", b"\x48\x01", b"\x50"
_MASK, _OBSERVATION, _GROUP_ID, _GROUP_REWARD = b"\x5a", b"\x6a", b"\x70", b"\x7d"


def sensors_in_order(spec: BehaviorSpec) -> list[ObservationSpec | ImageSpec]:
    """All sensors, as Unity orders them: by name."""
    return sorted((*spec.observations, *spec.images), key=lambda sensor: sensor.name)


@dataclass(frozen=True, slots=True)
class _Shape:
    """What decides the length of an agent's encoding, apart from its behavior and its pictures."""

    has_reward: bool
    done: bool
    interrupted: bool
    id_bytes: int
    has_mask: bool
    group_bytes: int
    has_group_reward: bool


class _Layout:
    """The encoding of one agent of a given shape: a template of bytes, and where in it the values go.

    cuts: for each camera, in the order in which they are met, where in the template its observation goes.
    """

    def __init__(self, spec: BehaviorSpec, shape: _Shape, format_: Format) -> None:
        self._body = bytearray()
        self._fields: list[tuple[str, int]] = []
        self.cuts: list[int] = []
        if shape.has_reward:
            self._body += _REWARD
            self._leave_room("<f4", 4)
        self._body += _DONE * shape.done + _MAX_STEP * shape.interrupted
        self._id(_ID, shape.id_bytes)
        if shape.has_mask:
            size = sum(spec.branches)
            self._body += _MASK + varint(size)
            self._leave_room(f"({size},)?", size)
        for sensor in sensors_in_order(spec):
            if isinstance(sensor, ImageSpec):
                self.cuts.append(len(self._body))
            else:
                self._numbers(sensor, format_)
        self._id(_GROUP_ID, shape.group_bytes)
        if shape.has_group_reward:
            self._body += _GROUP_REWARD
            self._leave_room("<f4", 4)
        # An encoding with pictures gets its length when their lengths are known.
        prefix = b"" if spec.images else _LIST_VALUE + varint(len(self._body))
        self.template = prefix + bytes(self._body)
        self.names = [f"f{n}" for n in range(len(self._fields))]
        self.dtype = np.dtype(
            {
                "names": self.names,
                "formats": [format_ for format_, _ in self._fields],
                "offsets": [offset + len(prefix) for _, offset in self._fields],
                "itemsize": len(self.template),
            }
        )

    def _id(self, tag: bytes, size: int) -> None:
        if size:
            self._body += tag
            self._leave_room(f"({size},)u1", size)

    def _numbers(self, sensor: ObservationSpec, format_: Format) -> None:
        before, after = vector(sensor, format_)
        floats = sensor.size * 4
        self._body += _OBSERVATION + varint(len(before) + floats + len(after)) + before
        self._leave_room(f"({sensor.size},)<f4", floats)
        self._body += after

    def _leave_room(self, format_: str, size: int) -> None:
        self._fields.append((format_, len(self._body)))
        self._body += bytes(size)


class RowWriter:
    """Writes the rows of one behavior as the bytes of a ListAgentInfoProto."""

    def __init__(self, spec: BehaviorSpec, format_: Format | None = None) -> None:
        self._spec = spec
        self._format = format_ or Format()
        self._layouts: dict[tuple[int, bool], _Layout] = {}
        # Columns of numbers and of pictures, both in the order of the wire.
        self._columns = sorted(range(len(spec.observations)), key=lambda n: spec.observations[n].name)
        cameras = sorted(range(len(spec.images)), key=lambda n: spec.images[n].name)
        self._known_ids = self._known_kinds = np.zeros(0, np.int64)
        self._cameras = [(Camera(spec.images[column], self._format), column) for column in cameras]
        self._plans = RowPlans(self._write, self._columns)

    def write(self, rows: Rows) -> bytes:
        """Bytes of all rows in their order; empty for no rows."""
        if not len(rows.ids):
            return b""
        return self._write(rows) if self._cameras else self._plans.write(rows)

    def _write(self, rows: Rows) -> bytes:
        count = len(rows.ids)
        # Bit 0: has a reward, 1: done, 2: interrupted, 3: has a group reward; above: bytes of the id and of the group.
        kinds = self._kinds_of_ids(rows.ids) | (rows.rewards != 0)
        if some(rows.done) or some(rows.interrupted):
            kinds |= (rows.interrupted.astype(np.int64) << 2) | (rows.done << 1)
        if rows.group_ids is not None and rows.group_rewards is not None and self._format.has_groups:
            kinds |= (_digits(rows.group_ids) << 8) | ((rows.group_rewards != 0).astype(np.int64) << 3)
        cuts = (kinds[1:] != kinds[:-1]).nonzero()[0] + 1
        edges = [0, *cuts.tolist(), count]
        return b"".join([self._block(rows, int(kinds[a]), a, b) for a, b in itertools.pairwise(edges)])

    def _kinds_of_ids(self, ids: Ints) -> Ints:
        """What the ids add to the kinds. The agents are mostly those of the last rows, in the same array."""
        if self._known_ids is not ids:
            self._known_ids, self._known_kinds = ids, _digits(ids) << 4
        return self._known_kinds

    def _layout(self, kind: int, *, has_mask: bool) -> _Layout:
        layout = self._layouts.get((kind, has_mask))
        if layout is None:
            shape = _Shape(
                has_reward=bool(kind & 1),
                done=bool(kind & 2),
                interrupted=bool(kind & 4),
                id_bytes=kind >> 4 & 0xF,
                has_mask=has_mask,
                group_bytes=kind >> 8,
                has_group_reward=bool(kind & 8),
            )
            layout = self._layouts[kind, has_mask] = _Layout(self._spec, shape, self._format)
        return layout

    def _block(self, rows: Rows, kind: int, start: int, stop: int) -> bytes:
        layout = self._layout(kind, has_mask=rows.mask is not None)
        block = bytearray(layout.template * (stop - start))
        values: list[NDArray[np.generic]] = []
        if kind & 1:
            values.append(rows.rewards[start:stop])
        if kind >> 4 & 0xF:
            values.append(_varints(rows.ids[start:stop], kind >> 4 & 0xF))
        if rows.mask is not None:
            values.append(rows.mask[start:stop])
        values += [rows.observations[column][start:stop] for column in self._columns]
        if rows.group_ids is not None and kind >> 8:
            values.append(_varints(rows.group_ids[start:stop], kind >> 8))
        if rows.group_rewards is not None and kind & 8:
            values.append(rows.group_rewards[start:stop])
        fields = np.frombuffer(block, layout.dtype)
        for number, column in enumerate(values):
            fields[layout.names[number]] = column
        return self._with_pictures(bytes(block), layout, rows, start) if self._cameras else bytes(block)

    def _with_pictures(self, block: bytes, layout: _Layout, rows: Rows, start: int) -> bytes:
        size = len(layout.template)
        pictures = [(camera, rows.images[column].reshape(len(rows.ids), -1)) for camera, column in self._cameras]
        written = bytearray()
        for row in range(len(block) // size):
            body, at = b"", row * size
            for cut, (camera, numbers) in zip(layout.cuts, pictures, strict=True):
                seen = camera.observation(tuple(numbers[start + row].tolist()))
                body += block[at : row * size + cut] + field(_OBSERVATION, seen)
                at = row * size + cut
            written += field(_LIST_VALUE, body + block[at : (row + 1) * size])
        return bytes(written)


# An id below the n-th limit (and not below the one before) takes n bytes as a varint; id 0 is not written at all.
_DIGIT_LIMITS = np.array([1] + [1 << 7 * digits for digits in range(1, 5)], np.int64)


def _digits(ids: Ints) -> Ints:
    return _DIGIT_LIMITS.searchsorted(ids, side="right").astype(np.int64)


def _varints(ids: Ints, digits: int) -> NDArray[np.uint8]:
    if digits == 1:
        return ids.astype(np.uint8)[:, None]
    shifts = np.arange(digits, dtype=np.int64) * 7
    groups = (ids[:, None] >> shifts) & 0x7F
    groups[:, :-1] |= 0x80
    return groups.astype(np.uint8)
