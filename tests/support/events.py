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
    """(step, values by tag) of all event files of a folder, oldest file first."""
    found = []
    for path in sorted(folder.glob("events.out.tfevents.*")):
        for event in events_in(path):
            values = {value.tag: value.simple_value for value in event.summary.value}
            if values:
                found.append((event.step, values))
    return found
