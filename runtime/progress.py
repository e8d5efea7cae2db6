"""What the user sees of a run: plain lines that scripts can read, and a live table where there is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TextIO

from rich.console import Console as RichConsole
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from runtime.reporting.lines import losses_text, printable

FAULTS_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class BrainView:
    """One behavior. step, max_steps: agent steps. mean_reward, std_reward: None without finished episodes.

    policy_version: the newest. acted_version: the one that the last accepted steps were acted with.
    """

    name: str
    step: int
    max_steps: int
    mean_reward: float | None
    std_reward: float | None
    policy_version: int
    acted_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentView:
    """One environment. state: a word or two. pid: of the player, None while there is none."""

    env_id: int
    state: str
    incarnation: int
    pid: int | None
    restarts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressView:
    """A run at one moment. faults: lines about what went wrong, oldest first.

    lost_steps: agent steps by reason. unreported_steps_max: of those that killed processes could no longer tell.
    """

    run_id: str
    elapsed_s: float
    env_steps: int
    agent_steps: int
    decisions: int
    steps_per_s: float
    brains: Sequence[BrainView] = ()
    environments: Sequence[EnvironmentView] = ()
    faults: Sequence[str] = ()
    lost_steps: Mapping[str, int] = field(default_factory=dict)
    unreported_steps_max: int = 0


class _Terminal(RichConsole):
    """A terminal that may go away: the base class would end the process then."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


class Console:
    """Writes lines, and shows the last view below them where the stream is a terminal.

    stream: where to write; is_terminal: None asks the stream. Each line is flushed. A stream that breaks, as when its
    reader has gone, is written to no more: a run does not end for that.
    """

    def __init__(self, stream: TextIO | None = None, *, is_terminal: bool | None = None) -> None:
        self._stream = sys.stdout if stream is None else stream
        if is_terminal is None:
            is_terminal = self._stream.isatty()
        self._live: Live | None = None
        self._is_broken = False
        if is_terminal:
            # What other code prints goes above the table, where both would write to the same terminal.
            is_shared = self._stream is sys.stdout
            self._live = Live(
                console=_Terminal(file=self._stream, force_terminal=True, highlight=False),
                auto_refresh=False,
                transient=True,
                redirect_stdout=is_shared,
                redirect_stderr=is_shared,
            )

    def show(self, view: ProgressView) -> None:
        """Shows a view; nothing where there is no terminal."""
        if self._live is None or self._is_broken:
            return
        try:
            if not self._live.is_started:
                self._live.start()
            self._live.update(rendered(view), refresh=True)
        except OSError:
            self._is_broken = True

    def line(self, text: str) -> None:
        """Writes one line above the table. Whatever could move the cursor is escaped."""
        if self._is_broken:
            return
        clean = printable(text)
        try:
            if self._live is not None and self._live.is_started:
                self._live.console.print(Text(clean), soft_wrap=True)
            else:
                self._stream.write(_encodable(clean, self._stream) + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            # ValueError: the stream was closed by somebody else.
            self._is_broken = True

    def warning(self, text: str) -> None:
        """Writes a warning."""
        self.line(f"[WARNING] {text}")

    def close(self) -> None:
        """Takes the table away and restores the terminal; may be called twice. Lines can still be written."""
        if self._live is not None:
            live, self._live = self._live, None
            if live.is_started:
                try:
                    live.stop()
                except OSError:
                    self._is_broken = True


def rendered(view: ProgressView) -> RenderableType:
    """The view as tables: the run, its behaviors, its environments, what was lost, the last faults."""
    head = Text(
        f"{printable(view.run_id)}: {view.agent_steps} agent steps, {view.env_steps} environment steps, "
        f"{view.decisions} decisions, {view.steps_per_s:.0f} steps/s, {view.elapsed_s:.0f} s",
        style="bold",
    )
    faults = [Text(printable(fault), style="yellow") for fault in view.faults[-FAULTS_SHOWN:]]
    losses = losses_text(view.lost_steps, view.unreported_steps_max)
    lost = [Text(losses, style="yellow")] if losses else []
    return Group(head, _brains(view.brains), _environments(view.environments), *lost, *faults)


def _brains(brains: Sequence[BrainView]) -> Table:
    table = _table("behavior", "steps", "of", "mean reward", "std", "policy", "acting")
    for brain in brains:
        table.add_row(
            Text(printable(brain.name)),
            str(brain.step),
            str(brain.max_steps),
            _number(brain.mean_reward),
            _number(brain.std_reward),
            f"v{brain.policy_version}",
            f"v{brain.acted_version}",
        )
    return table


def _environments(environments: Sequence[EnvironmentView]) -> Table:
    table = _table("environment", "state", "incarnation", "pid", "restarts")
    for env in environments:
        pid = "-" if env.pid is None else str(env.pid)
        table.add_row(str(env.env_id), Text(printable(env.state)), str(env.incarnation), pid, str(env.restarts))
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, no_wrap=True)
    return table


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _encodable(text: str, stream: TextIO) -> str:
    """The text with characters escaped that the stream's encoding does not have."""
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
