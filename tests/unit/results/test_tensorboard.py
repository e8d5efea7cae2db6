"""TensorBoard events: readable by TensorBoard itself, at once, and no reason to end a training."""

import math
import subprocess
import sys
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.tensorflow_stub.errors import OutOfRangeError
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import PyRecordReader_New

from runtime.reporting.tensorboard import EventWriter
from tests.support.full_disk import file_size_limit


def read_events(path: Path) -> list[Event]:
    """What TensorBoard's own reader finds; it raises DataLossError for a sum that is wrong or a record cut short."""
    reader = PyRecordReader_New(str(path))
    events: list[Event] = []
    while True:
        try:
            reader.GetNext()
        except OutOfRangeError:
            return events
        events.append(Event.FromString(reader.record()))


def scalars(event: Event) -> dict[str, float]:
    return {value.tag: value.simple_value for value in event.summary.value}


def test_events_are_in_the_file_when_add_returns(tmp_path: Path) -> None:
    warnings: list[str] = []
    writer = EventWriter(tmp_path / "Basic", started_s=1000.5, warn=warnings.append)
    writer.add(2000, {"Environment/Cumulative Reward": 0.5, "Is Training": 1.0}, now_s=1002.0)
    first, second = read_events(writer.path)
    writer.close()
    writer.close()
    assert writer.path.name.startswith("events.out.tfevents.0000001000.")
    assert (first.file_version, first.wall_time) == ("brain.Event:2", 1000.5)
    assert (second.step, second.wall_time) == (2000, 1002.0)
    assert scalars(second) == {"Environment/Cumulative Reward": 0.5, "Is Training": 1.0}
    assert warnings == []


def test_a_run_that_goes_on_within_the_same_second_has_its_own_file(tmp_path: Path) -> None:
    for _ in range(2):
        writer = EventWriter(tmp_path, started_s=1000.5, warn=print)
        writer.add(1, {"a": 1.0}, now_s=1000.5)
        writer.close()
    assert [each.name.rpartition(".")[2] for each in sorted(tmp_path.iterdir())] == ["0", "1"]


def test_values_that_are_not_finite_are_left_out(tmp_path: Path) -> None:
    warnings: list[str] = []
    writer = EventWriter(tmp_path, started_s=1.0, warn=warnings.append)
    writer.add(1, {"a": math.nan, "b": 2.0}, now_s=1.0)
    writer.add(2, {"a": math.inf}, now_s=1.0)
    writer.close()
    assert [scalars(event) for event in read_events(writer.path)[1:]] == [{"b": 2.0}]


def test_a_folder_that_cannot_be_made_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    warnings: list[str] = []
    writer = EventWriter(tmp_path / "taken" / "Basic", started_s=1.0, warn=warnings.append)
    writer.add(1, {"a": 1.0}, now_s=1.0)
    writer.close()
    (warning,) = warnings
    assert "cannot write TensorBoard events to" in warning
    assert "Training goes on; curves have gaps." in warning


def test_a_full_disk_is_said_once_and_leaves_only_whole_records(tmp_path: Path) -> None:
    warnings: list[str] = []
    writer = EventWriter(tmp_path, started_s=1.0, warn=warnings.append)
    writer.add(1, {"a": 1.0}, now_s=1.0)
    # Eight bytes of the next record still fit.
    with file_size_limit(writer.path.stat().st_size + 8):
        writer.add(2, {"a": 2.0}, now_s=2.0)
        writer.add(3, {"a": 3.0}, now_s=3.0)
    writer.add(4, {"a": 4.0}, now_s=4.0)
    writer.close()
    assert len(warnings) == 2
    assert [event.step for event in read_events(writer.path)[1:]] == [1, 4]


def test_each_spell_without_room_is_said_once_and_so_is_its_end(tmp_path: Path) -> None:
    warnings: list[str] = []
    notes: list[str] = []
    writer = EventWriter(tmp_path, started_s=1.0, warn=warnings.append, note=notes.append)
    for spell in (1, 2):
        with file_size_limit(writer.path.stat().st_size + 8):
            writer.add(1, {"a": 1.0}, now_s=1.0)
            writer.add(2, {"a": 1.0}, now_s=1.0)
        assert (len(warnings), len(notes)) == (spell, spell - 1)
        writer.add(3, {"a": 1.0}, now_s=1.0)
        writer.add(4, {"a": 1.0}, now_s=1.0)
        assert (len(warnings), len(notes)) == (spell, spell)
    writer.close()
    assert notes[0] == f"TensorBoard events are written to {tmp_path} again"


def test_a_folder_that_can_be_made_later_has_events_from_then_on(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    warnings: list[str] = []
    notes: list[str] = []
    writer = EventWriter(tmp_path / "taken", started_s=1.0, warn=warnings.append, note=notes.append)
    writer.add(1, {"a": 1.0}, now_s=1.0)
    (tmp_path / "taken").unlink()
    writer.add(2, {"a": 2.0}, now_s=2.0)
    writer.close()
    writer.add(3, {"a": 3.0}, now_s=3.0)
    assert [event.step for event in read_events(writer.path)] == [0, 2]
    assert (len(warnings), len(notes)) == (1, 1)


def test_tensorflow_is_not_imported_to_write_events(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from runtime.reporting.tensorboard import EventWriter; "
        "w = EventWriter(Path(sys.argv[1]), started_s=1.0, warn=print); w.add(1, {'a': 1.0}, now_s=1.0); w.close(); "
        "print('tensorflow' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert answer.stdout.strip() == "False"
