"""What a run tells at its summaries: three counters, and a line only where there is something new to say."""

from __future__ import annotations

from pathlib import Path

from runtime.decisions.ledger import Counters
from runtime.learner import Summary
from runtime.recording import RunRecorder
from runtime.recording_options import RecordingOptions
from tests.unit.results.test_tensorboard import read_events, scalars


def recorder(root: Path) -> RunRecorder:
    def refuse(text: str) -> None:
        raise AssertionError(text)

    return RunRecorder(RecordingOptions(run_id="r", seed=1, root=str(root), launched_s=0.0, launched_at=1.0), refuse)


def summary(step: int, reward: float | None = None, behavior: str = "Basic") -> Summary:
    deviation = None if reward is None else 0.0
    return Summary(behavior=behavior, step=step, mean_reward=reward, std_reward=deviation, values={"x": 1.0})


def told(ours: RunRecorder) -> list[str]:
    """Steps of the lines so far, with a mark for those without an episode."""
    lines = [text for _, text in ours.lines]
    return [text.partition("Step: ")[2].partition(".")[0] + ("-" if "No episode" in text else "") for text in lines]


def test_the_three_counters_are_in_the_events(tmp_path: Path) -> None:
    ours = recorder(tmp_path)
    ours.add_summaries([summary(100)], Counters(env_steps=7, agent_steps=12, decisions=14, lost={"gap": 2}))
    ours.close()
    (path,) = (tmp_path / "Basic").glob("events*")
    (event,) = read_events(path)[1:]
    assert scalars(event) == {
        "x": 1.0,
        "Runtime/Env Steps": 7.0,
        "Runtime/Agent Steps": 12.0,
        "Runtime/Decisions": 14.0,
        "Runtime/Lost Steps/gap": 2.0,
    }


def test_one_line_is_told_where_several_summaries_without_an_episode_come_together(tmp_path: Path) -> None:
    ours = recorder(tmp_path)
    ours.add_summaries([summary(100), summary(200), summary(300), summary(300, behavior="Other")], Counters())
    assert told(ours) == ["300-", "300-"]
    ours.add_summaries([summary(400, 1.0), summary(500), summary(600, 2.0), summary(700)], Counters())
    assert told(ours)[2:] == ["400", "600"]
    ours.add_summaries([summary(800)], Counters())
    assert told(ours)[4:] == ["800-"]
    ours.close()
    (path,) = (tmp_path / "Basic").glob("events*")
    assert len(read_events(path)) == 1 + 8, "the curves have all of them"
