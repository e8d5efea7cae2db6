"""Processes of a run: started fresh, watched from their first line, told their secrets through a pipe.

`ProcessFactory` stands where Thespian expects a multiprocessing context. What it adds to `spawn`: the environment of
the children is built for them (the parent's is not touched), stdout and stderr go to the log of the run, no resource
tracker is started, the key travels in the pipe that also carries the pickled target, and the parent keeps a descriptor
that becomes readable when the child has ended.
"""

from __future__ import annotations

import contextlib
import io
import logging
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing import reduction, spawn
from multiprocessing.context import set_spawning_popen
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

from runtime.actors import deathwatch
from runtime.reporting.lines import printable

RUN_VARIABLE: Final = "UNITY_RL_RUN"
_ONE_THREAD: Final = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_LOG_FORMAT: Final = "%(asctime)s %(processName)s[%(process)d] %(levelname)s %(name)s: %(message)s"


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What every process of a run is told; `key` never appears in an environment, a command line or a repr.

    marker: value of UNITY_RL_RUN in the environment of every process of the run, unique to one actor system.
    launcher: the process whose end ends everything. admin_pid: known in the processes below the admin, else None.
    log_file: receives stdout, stderr and log records of the run's processes; None discards them.
    """

    run_id: str
    marker: str
    launcher: deathwatch.Life
    key: bytes = field(repr=False)
    log_file: Path | None = None
    admin_pid: int | None = None

    def environment(self) -> dict[str, str]:
        """The environment of a child: the parent's, the run's marker, one thread for each numeric library."""
        internal = os.devnull if self.log_file is None else str(self.log_file.with_suffix(".thespian.log"))
        return {
            **os.environ,
            **dict.fromkeys(_ONE_THREAD, "1"),
            RUN_VARIABLE: self.marker,
            "THESPLOG_FILE": internal,
            # Without this, setproctitle writes over the environment, by which the run's processes are found.
            "SPT_NOENV": "1",
        }


class ProcessFactory:
    """Makes the processes of one run; picklable, since every process may start further ones."""

    def __init__(self, settings: RunSettings) -> None:
        self.settings = settings

    def Process(  # noqa: N802 - the name that multiprocessing's contexts have
        self,
        *,
        target: Callable[..., object],
        args: tuple[object, ...] = (),
        name: str | None = None,
    ) -> RunProcess:
        """A process that will call `target(*args)`; like multiprocessing's, but for what the module says."""
        return RunProcess(self.settings, target=target, args=args, name=name)


class RunProcess(BaseProcess):
    """One process of a run, seen from its parent before `start` and from itself afterwards."""

    _start_method = "spawn"

    def __init__(
        self,
        settings: RunSettings,
        *,
        target: Callable[..., object],
        args: tuple[object, ...] = (),
        name: str | None = None,
    ) -> None:
        super().__init__(target=target, args=args, name=name)
        self.settings = settings
        self.passed_fds: tuple[int, ...] = ()
        self.is_session_leader = False
        self.environment_extra: Mapping[str, str] = {}

    @staticmethod
    def _Popen(process: RunProcess) -> _Popen:  # noqa: N802
        return _Popen(process)

    @staticmethod
    def _after_fork() -> None:
        """Nothing to repair: the process was not forked (asked by Python 3.12 and later)."""

    def run(self) -> None:
        """In the child: log to the file of the run, watch the admin, then do what the process is for."""
        global _is_run_process  # noqa: PLW0603 - a fact about this process
        _is_run_process = True
        _log_to(self.settings.log_file)
        if self.settings.admin_pid is not None:
            deathwatch.watch(self.settings.admin_pid, "the admin of the actor system")
        super().run()


class _Popen:
    """The running process behind a RunProcess, in the shape multiprocessing expects.

    subprocess does the work: it is a public way to give a child its own environment, and it remembers an exit status
    whoever asks first.
    """

    method = "spawn"

    def __init__(self, process: RunProcess) -> None:
        data = self._pickled(process)
        ours, theirs = os.pipe()
        data_read, data_write = os.pipe()
        self.finalizer = None
        self.sentinel = ours
        try:
            try:
                self._process = self._launch(process, data_read, theirs)
            finally:
                os.close(theirs)
                os.close(data_read)
            self.pid = self._process.pid
            with open(data_write, "wb", closefd=False) as pipe:
                pipe.write(data)
        except BaseException:
            self.close()
            self._abandon()
            raise
        finally:
            os.close(data_write)

    def _pickled(self, process: RunProcess) -> memoryview:
        preparation = spawn.get_preparation_data(process.name)
        for main in ("init_main_from_name", "init_main_from_path"):
            preparation.pop(main, None)
        buffer = io.BytesIO()
        set_spawning_popen(self)  # type: ignore[arg-type] # it lets the authentication key of multiprocessing be pickled
        try:
            reduction.dump(preparation, buffer)
            reduction.dump(process, buffer)
        finally:
            set_spawning_popen(None)
        return buffer.getbuffer()

    def _launch(self, process: RunProcess, data_read: int, sentinel: int) -> subprocess.Popen[bytes]:
        settings = process.settings
        # The kernel ties "parent" to the thread that starts the child: only the main thread lasts as long as we do.
        is_lasting = threading.current_thread() is threading.main_thread()
        numbers = (
            data_read,
            sentinel,
            settings.launcher.pid,
            settings.launcher.started,
            os.getpid() if is_lasting else 0,
        )
        with contextlib.ExitStack() as stack:
            output = subprocess.DEVNULL
            if settings.log_file is not None:
                output = stack.enter_context(settings.log_file.open("ab"))  # type: ignore[assignment]
            return subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("childmain.py")), *map(str, numbers)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**settings.environment(), **process.environment_extra},
                pass_fds=(data_read, sentinel, *process.passed_fds),
                start_new_session=process.is_session_leader,
            )

    def _abandon(self) -> None:
        process: subprocess.Popen[bytes] | None = getattr(self, "_process", None)
        if process is not None:
            process.kill()
            process.wait()

    def duplicate_for_child(self, fd: int) -> int:
        """Descriptors are passed by `RunProcess.passed_fds`, not by pickling."""
        msg = f"file descriptor {fd} cannot be pickled into a process of a run"
        raise TypeError(msg)

    def poll(self, _flag: int = 0) -> int | None:
        """The exit code, None while the process runs."""
        return self._process.poll()

    def wait(self, timeout: float | None = None) -> int | None:
        """The exit code, None if the process still runs after `timeout` seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout)
        return None

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._process.terminate()

    def kill(self) -> None:
        """Send SIGKILL."""
        self._process.kill()

    def close(self) -> None:
        """Give the sentinel back; may be called again."""
        if self.sentinel >= 0:
            os.close(self.sentinel)
            self.sentinel = -1

    def __del__(self) -> None:
        self.close()


class FieldFormatter(logging.Formatter):
    """Puts the fields given as `extra` behind the message.

    What players say may stand in a record: characters that could move a cursor are escaped, and lines after the first
    are indented, so that none can pass for a record of its own.
    """

    _STANDARD = frozenset((*vars(logging.makeLogRecord({})), "message", "asctime"))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """The first part of a record: the message and the fields."""
        fields = [f"{name}={value!r}" for name, value in vars(record).items() if name not in self._STANDARD]
        return " ".join([super().formatMessage(record), *fields])

    def format(self, record: logging.LogRecord) -> str:
        """The whole record, with its traceback, safe to look at."""
        return "\n    ".join(printable(line) for line in super().format(record).split("\n"))


def _log_to(log_file: Path | None) -> None:
    """Send log records of this process to `log_file`; without one they are dropped."""
    handler = logging.NullHandler() if log_file is None else logging.FileHandler(log_file, delay=True)
    handler.setFormatter(FieldFormatter(_LOG_FORMAT))
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    root.addHandler(handler)


# The logging tree as it was when this process started. Thespian puts another one in its place, which sends each record
# as a message, also from threads that must not touch the transport.
_ROOT: Final = logging.root
_MANAGER: Final = logging.Logger.manager


_is_run_process = False


def is_run_process() -> bool:
    """Whether this process was started as part of a run, and may be changed as a whole."""
    return _is_run_process


def restore_logging() -> None:
    """Undo Thespian's replacement of the logging tree: records go straight to the file of the run, from any thread."""
    logging.root = _ROOT
    logging.Logger.root = _ROOT
    logging.Logger.manager = _MANAGER


def forget_child(process: BaseProcess) -> None:
    """Keep multiprocessing from joining `process` when this program ends: the dead-man's thread ends it."""
    children: Any = getattr(multiprocessing.process, "_children", None)
    if children is not None:
        children.discard(process)
