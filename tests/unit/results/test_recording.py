"""The files of a run, as its recorder writes them: what was lost is in the events too."""

from pathlib import Path

from runtime.decisions.ledger import Counters
from runtime.learner import Summary
from runtime.recording import RunRecorder
from runtime.recording_options import RecordingOptions
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
