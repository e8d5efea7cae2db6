"""The files of a run, as its recorder writes them: what was lost is in the events too."""

import json
from pathlib import Path

from runtime.decisions.ledger import Counters
from runtime.learner import BehaviorSettings, MemorySettings, NetworkSettings, Summary
from runtime.recording import RunRecorder
from runtime.recording_options import RecordingOptions
from tests.support.events import scalars_in, tables_in
from tests.unit.results.test_tensorboard import read_events, scalars


def recorder(root: Path, **lesson_brains: str) -> RunRecorder:
    def refuse(text: str) -> None:
        raise AssertionError(text)

    options = RecordingOptions(
        run_id="r", seed=1, root=str(root), launched_s=0.0, launched_at=1.0, lesson_brains=lesson_brains
    )
    return RunRecorder(options, refuse)


def summary(step: int) -> Summary:
    return Summary(behavior="Basic", step=step, mean_reward=None, std_reward=None, values={"Is Training": 1.0})


def test_every_summary_tells_what_the_run_has_lost_so_far_by_reason(tmp_path: Path) -> None:
    ours = recorder(tmp_path)
    counters = Counters()
    ours.add_summaries([summary(100)], counters)
    counters = counters.lose("stale", 3).lose("gap", 5)
    ours.add_summaries([summary(200)], counters)
    ours.add_summaries([summary(300)], counters.lose("stale", 4).leave_unreported(20))
    ours.close()
    (path,) = (tmp_path / "Basic").glob("events*")
    first, second, third = (scalars(event) for event in read_events(path)[1:])
    assert first == {"Is Training": 1.0}
    assert second == {"Is Training": 1.0, "Runtime/Lost Steps/stale": 3.0, "Runtime/Lost Steps/gap": 5.0}
    assert third == {
        "Is Training": 1.0,
        "Runtime/Lost Steps/stale": 7.0,
        "Runtime/Lost Steps/gap": 5.0,
        "Runtime/Unreported Steps Max": 20.0,
    }


def test_summaries_tell_the_lesson_of_every_parameter_and_that_of_the_behavior(tmp_path: Path) -> None:
    ours = recorder(tmp_path, wall="Basic", mass="Other")
    ours.lessons = {"wall": 2, "mass": 1}
    ours.add_summaries([summary(100)], Counters())
    ours.close()
    (path,) = (tmp_path / "Basic").glob("events*")
    (event,) = read_events(path)[1:]
    assert scalars(event) == {
        "Is Training": 1.0,
        "Environment/Lesson Number/wall": 2.0,
        "Environment/Lesson Number/mass": 1.0,
        "Environment/Lesson": 2.0,
    }


def test_events_begin_with_every_setting_of_the_behavior(tmp_path: Path) -> None:
    ours = recorder(tmp_path)
    ours.describe("Basic", BehaviorSettings(max_steps=77, network_settings=NetworkSettings(memory=MemorySettings())))
    ours.add_summaries([summary(100), summary(200)], Counters())
    ours.close()
    rows = tables_in(tmp_path / "Basic")["Hyperparameters"]
    assert rows[0] == ["Setting", "Value"]
    told = dict(rows[1:])
    assert (told["max_steps"], told["hyperparameters.epsilon"]) == ("77", "0.2")
    assert told["network_settings.memory.sequence_length"] == "64"
    assert told["init_path"] == "None"
    assert [step for step, _ in scalars_in(tmp_path / "Basic")] == [100, 200]


def test_a_table_that_cannot_be_written_is_only_said(tmp_path: Path) -> None:
    said: list[str] = []
    options = RecordingOptions(run_id="r", seed=1, root=str(tmp_path), launched_s=0.0, launched_at=1.0)
    ours = RunRecorder(options, said.append)
    ours.describe("Basic", "no settings")  # type: ignore[arg-type]
    ours.add_summaries([summary(100)], Counters())
    ours.close()
    assert len(said) == 1
    assert said[0].startswith("cannot write the run's reports: ")
    assert [step for step, _ in scalars_in(tmp_path / "Basic")] == [100]


def test_summaries_become_gauges_of_the_timers(tmp_path: Path) -> None:
    ours = recorder(tmp_path)
    (tmp_path / "run_logs").mkdir()
    for step, value in ((100, 3.0), (200, 1.0)):
        told = Summary(behavior="Basic", step=step, mean_reward=None, std_reward=None, values={"Policy/My Beta": value})
        ours.add_summaries([told], Counters())
    ours.write_logs(is_final=True)
    ours.close()
    document = json.loads((tmp_path / "run_logs" / "timers.json").read_text())
    assert document["gauges"] == {"Basic.Policy.MyBeta.mean": {"value": 1.0, "min": 1.0, "max": 3.0, "count": 2}}
    assert set(document["children"]) == {"launcher", "TrainerController"}


def test_each_spell_without_reports_is_said_once_and_its_end_when_all_are_written_again(tmp_path: Path) -> None:
    said: list[str] = []
    options = RecordingOptions(run_id="r", seed=1, root=str(tmp_path), launched_s=0.0, launched_at=1.0)
    ours = RunRecorder(options, said.append, lambda text: said.append(f"note: {text}"))
    logs = tmp_path / "run_logs"
    for spell in (1, 2):
        logs.touch()  # a file where the folder of the reports should be
        ours.write_logs(is_final=False)
        ours.write_logs(is_final=False)
        logs.unlink()
        logs.mkdir()
        assert len(said) == 2 * spell - 1
        for _ in range(2):
            ours.write_logs(is_final=False)
        for path in (*logs.iterdir(), logs):
            path.unlink() if path.is_file() else path.rmdir()
    assert said[0].startswith("cannot write the run's reports: ")
    assert said[1:4:2] == ["note: the run's reports are written again"] * 2
    assert len(said) == 4
