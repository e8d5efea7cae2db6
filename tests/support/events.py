"""Reads TensorBoard's event files, with TensorBoard's own reader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.tensorflow_stub.errors import OutOfRangeError
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import PyRecordReader_New


def events_in(path: Path) -> Iterator[Event]:
    """Every record of a file; raises DataLossError for a sum that is wrong or a record cut short."""
    reader = PyRecordReader_New(str(path))
    while True:
        try:
            reader.GetNext()
        except OutOfRangeError:
            return
        yield Event.FromString(reader.record())


def scalars_in(folder: Path) -> list[tuple[int, dict[str, float]]]:
    """(step, values by tag) of all event files of a folder, oldest file first; texts are left out."""
    found = []
    for path in sorted(folder.glob("events.out.tfevents.*")):
        for event in events_in(path):
            values = {value.tag: value.simple_value for value in event.summary.value if not value.HasField("tensor")}
            if values:
                found.append((event.step, values))
    return found


def tables_in(folder: Path) -> dict[str, list[list[str]]]:
    """Rows of every text of a folder's event files that is a table, by tag; the newest of a tag."""
    found = {}
    for path in sorted(folder.glob("events.out.tfevents.*")):
        for value in (each for event in events_in(path) for each in event.summary.value if each.HasField("tensor")):
            assert value.metadata.plugin_data.plugin_name == "text"
            rows, columns = (dim.size for dim in value.tensor.tensor_shape.dim)
            cells = [cell.decode() for cell in value.tensor.string_val]
            assert len(cells) == rows * columns
            found[value.tag] = [cells[start : start + columns] for start in range(0, len(cells), columns)]
    return found
