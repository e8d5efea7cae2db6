"""What the user sees of a run: lines to search for, a table on a terminal, and nothing that moves the cursor."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console as RichConsole

from runtime.progress import BrainView, Console, EnvironmentView, ProgressView, rendered
from runtime.reporting.lines import losses_text, progress_line

VIEW = ProgressView(
    run_id="basic",
    elapsed_s=12.4,
    env_steps=100,
    agent_steps=800,
    decisions=816,
    steps_per_s=321.6,
    brains=[
        BrainView(
            name="Basic\n\x1b[2J",
            step=800,
            max_steps=16000,
            mean_reward=0.93,
            std_reward=None,
            policy_version=7,
            acted_version=6,
        )
    ],
    environments=[
        EnvironmentView(env_id=0, state="stepping", incarnation=1, pid=4711, restarts=0),
        EnvironmentView(env_id=1, state="[bold]restarting", incarnation=2, pid=None, restarts=1),
    ],
    faults=[f"fault {n}" for n in range(9)],
    lost_steps={"stale": 3, "gap": 12},
    unreported_steps_max=40,
)


class BreakingStream(io.StringIO):
    """A stream whose reader goes away after some writes."""

    def __init__(self, writes: int, error: OSError) -> None:
        super().__init__()
        self._left = writes
        self._error = error

    def write(self, text: str) -> int:
        self._left -= 1
        if self._left < 0:
            raise self._error
        return super().write(text)


def test_a_summary_is_the_line_that_users_search_for() -> None:
    line = progress_line("Basic", step=2000, elapsed_s=3.8541, mean_reward=0.05512, std_reward=0.3889)
    assert line == (
        "[INFO] Basic. Step: 2000. Time Elapsed: 3.854 s. Mean Reward: 0.055. Std of Reward: 0.389. Training."
    )


def test_a_summary_of_groups_is_the_line_that_their_users_search_for() -> None:
    line = progress_line(
        "Push", step=50000, elapsed_s=65.443, mean_reward=0.0, std_reward=0.1, mean_group_reward=-0.2341
    )
    assert line == (
        "[INFO] Push. Step: 50000. Time Elapsed: 65.443 s. Mean Reward: 0.000. Mean Group Reward: -0.234. Training."
    )


def test_a_summary_without_episodes_says_so() -> None:
    line = progress_line("Basic", step=2000, elapsed_s=3.854, mean_reward=None, std_reward=None)
    assert line == (
        "[INFO] Basic. Step: 2000. Time Elapsed: 3.854 s. No episode was completed since last summary. Training."
    )


def test_inference_is_not_training() -> None:
    line = progress_line("B", step=1, elapsed_s=1.0, mean_reward=1.0, std_reward=0.0, is_training=False)
    assert line.endswith(". Not Training.")


@pytest.mark.parametrize(
    ("lost", "unreported", "text"),
    [
        ({}, 0, ""),
        ({"stale": 0}, 0, ""),
        ({"stale": 7}, 0, "lost agent steps: 7 stale"),
        ({}, 5, "lost agent steps: at most 5 unreported"),
    ],
)
def test_only_a_run_that_lost_steps_says_so(lost: dict[str, int], unreported: int, text: str) -> None:
    assert losses_text(lost, unreported) == text


@given(st.text())
def test_no_name_breaks_the_line(name: str) -> None:
    line = progress_line(name, step=1, elapsed_s=1.0, mean_reward=None, std_reward=None)
    assert line.isprintable()
    assert len(line.splitlines()) == 1


def test_without_a_terminal_there_are_plain_lines_and_no_table() -> None:
    stream = io.StringIO()
    console = Console(stream)
    console.show(VIEW)
    console.line("one [bold]line\n\x1b[31m")
    console.warning("two")
    console.close()
    console.line("three")
    assert stream.getvalue() == "one [bold]line\\n\\x1b[31m\n[WARNING] two\nthree\n"


def test_on_a_terminal_lines_scroll_above_a_table_that_is_taken_away_at_the_end() -> None:
    stream = io.StringIO()
    console = Console(stream, is_terminal=True)
    console.line("before")
    console.show(VIEW)
    console.line("a [bold]line")
    console.show(VIEW)
    console.close()
    console.close()
    console.line("after")
    text = stream.getvalue()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "a [bold]line" in text
    assert "4711" in text
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1, "the cursor is shown again"


def test_the_table_shows_versions_environments_and_the_last_faults() -> None:
    stream = io.StringIO()
    RichConsole(file=stream, width=120).print(rendered(VIEW))
    text = stream.getvalue()
    assert "basic: 800 agent steps, 100 environment steps, 816 decisions, 322 steps/s, 12 s" in text
    assert re.search(r"Basic\\n\\x1b\[2J +800 +16000 +0\.930 +- +v7 +v6", text)
    assert re.search(r"0 +stepping +1 +4711 +0", text)
    assert re.search(r"1 +\[bold\]restarting +2 +- +1", text)
    assert "lost agent steps: 12 gap, 3 stale, at most 40 unreported\n" in text
    assert "fault 8" in text
    assert "fault 3" not in text
    assert "\x1b" not in text


@pytest.mark.parametrize("error", [BrokenPipeError(), OSError("terminal gone")])
@pytest.mark.parametrize("writes", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_reader_that_has_gone_does_not_end_the_run(*, is_terminal: bool, writes: int, error: OSError) -> None:
    console = Console(BreakingStream(writes, error), is_terminal=is_terminal)
    for text in ("a", "b", "c"):
        console.show(VIEW)
        console.line(text)
    console.close()
    console.line("d")


def test_a_closed_stream_does_not_end_the_run() -> None:
    stream = io.StringIO()
    console = Console(stream)
    stream.close()
    console.line("a")
    console.warning("b")


def test_characters_that_the_stream_lacks_are_escaped() -> None:
    raw = io.BytesIO()
    console = Console(io.TextIOWrapper(raw, encoding="ascii"))
    console.line("Läufer \N{SNOWMAN}")
    assert raw.getvalue() == b"L\\xe4ufer \\u2603\n"
