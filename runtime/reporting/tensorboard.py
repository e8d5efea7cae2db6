"""TensorBoard events, written as they come.

TensorBoard's own file writer imports TensorFlow to open a file, and writes on a thread whose errors nobody sees. Here
its record format and messages are used on a file of ours: events are in the file when `add` returns, and a full disk is
said once, its end too, and it does not end the training.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Mapping, Sequence
from io import BytesIO, FileIO
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.plugins.text import metadata as text_plugin
from tensorboard.summary.writer.record_writer import RecordWriter

from runtime.reporting.spells import Say, Spells

BUCKETS_MAX = 30
FILE_VERSION = "brain.Event:2"
"""The first event of each file: TensorBoard takes a file without it for one of another kind."""


class EventWriter:
    """The events of one behavior, in one new file of `folder`.

    started_s: seconds since 1970, part of the file's name, so that TensorBoard reads the files of a resumed run in
    order. warn: takes one sentence when writes begin to fail; later failures are silent until `note` was told
    that events are written again.
    """

    def __init__(self, folder: Path, *, started_s: float, warn: Say, note: Say | None = None) -> None:
        # A run that goes on within the second in which the earlier one began, in the same process, has its own file.
        name = f"events.out.tfevents.{int(started_s):010d}.{os.getpid()}"
        self._folder = folder
        self._name = name
        self._path = folder / f"{name}.0"
        self._spells = Spells(warn, note, f"TensorBoard events are written to {folder} again")
        self._file: FileIO | None = None
        self._size = 0
        self._is_closed = False
        # Not in the file yet; nothing may stand before it.
        self._head: Event | None = Event(wall_time=started_s, file_version=FILE_VERSION)
        self._begin()

    def _begin(self) -> bool:
        """Whether there is a file that begins as it must: what could not be made is tried again with each event."""
        try:
            if self._file is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                files = (self._folder / f"{self._name}.{n}" for n in itertools.count())
                self._path = next(path for path in files if not path.exists())
                # Not buffered: a record is in the file, or the error is known, when `write` returns.
                self._file = FileIO(self._path, "ab")
            if self._head is not None:
                self._append(self._head)
                self._head = None
        except OSError as error:
            self._fail(error)
            return False
        return True

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    def add(
        self,
        step: int,
        values: Mapping[str, float],
        *,
        now_s: float,
        histograms: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        """Writes one event with a value for each tag. step: agent steps. now_s: seconds since 1970.

        Values that are not finite are left out, because TensorBoard draws no curve around them.
        """
        scalars = [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items() if math.isfinite(value)]
        scalars += [Summary.Value(tag=tag, histo=_histogram(each)) for tag, each in (histograms or {}).items() if each]
        if scalars:
            self._write(Event(wall_time=now_s, step=step, summary=Summary(value=scalars)))

    def add_table(self, tag: str, rows: Sequence[Sequence[str]], *, now_s: float) -> None:
        """Writes a text that TensorBoard shows as a table, at step 0. rows: equally long, at least one."""
        cells = [cell.encode("utf-8", "backslashreplace") for row in rows for cell in row]
        sizes = [TensorShapeProto.Dim(size=len(rows)), TensorShapeProto.Dim(size=len(rows[0]))]
        table = TensorProto(dtype=DT_STRING, tensor_shape=TensorShapeProto(dim=sizes), string_val=cells)
        kind = text_plugin.create_summary_metadata(display_name=tag, description="")
        value = Summary.Value(tag=tag, tensor=table, metadata=kind)
        self._write(Event(wall_time=now_s, step=0, summary=Summary(value=[value])))

    def close(self) -> None:
        """Closes the file; may be called twice. Later events are dropped."""
        self._is_closed = True
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, event: Event) -> None:
        if self._is_closed or not self._begin():
            return
        try:
            self._append(event)
        except OSError as error:
            self._fail(error)
        else:
            self._spells.written("")

    def _append(self, event: Event) -> None:
        """Raises OSError; the file holds only whole records then."""
        assert self._file is not None
        record = BytesIO()
        RecordWriter(record).write(event.SerializeToString())
        left = memoryview(record.getvalue())
        try:
            while left:
                # A disk that is nearly full takes some of the bytes, and says why only when it is asked again.
                left = left[self._file.write(left) :]
        except OSError:
            # Half a record would hide all later ones from a reader.
            self._file.truncate(self._size)
            raise
        self._size += record.tell()

    def _fail(self, error: OSError) -> None:
        reason = error.strerror or str(error)
        text = f"cannot write TensorBoard events to {self._path}: {reason}. Training goes on; curves have gaps."
        self._spells.failed("", text)


def _histogram(values: Sequence[float]) -> HistogramProto:
    """The values in at most `BUCKETS_MAX` buckets of equal width."""
    low, high = min(values), max(values)
    count = 1 if low == high else BUCKETS_MAX
    width = (high - low) / count
    buckets = [0] * count
    for value in values:
        buckets[min(count - 1, int((value - low) / width)) if width else 0] += 1
    return HistogramProto(
        min=low,
        max=high,
        num=len(values),
        sum=sum(values),
        sum_squares=sum(value * value for value in values),
        bucket_limit=[low + width * (number + 1) for number in range(count)],
        bucket=buckets,
    )
