"""A player's process: started in a session of its own, watched, and ended with everything that it started.

Its death is noticed by a descriptor of the process (or a watching thread where the system has none) and told to the
owner at once. What it prints goes through a pipe into its log file, up to a limit; the last lines are kept for errors.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from runtime.errors import EnvironmentFactoryError, UsageError
from runtime.players.leash import LEASHES, leashed_command
from runtime.players.places import Place

TAIL_LINES = 20
PRINTED_BYTES_MAX = 1 << 20
_TAIL_BYTES = 16_384
_PIPE_BYTES = 65_536
_TERMINATE_S = 1.0
_NOT_STARTED = "the player {!r} could not be started: {}. Check that it was built for this system."
_NO_PROXY = "localhost,127.0.0.1,::1"


def player_environment(base: Mapping[str, str], *, run: str, env_id: int, incarnation: int = 0) -> dict[str, str]:
    """The environment variables of a player: marked with its run, and with no proxy between it and us.

    FAKEUNITY_ENV_ID names the journal of a bundled player that was installed as an executable; with
    FAKEUNITY_INCARNATION it says whom a fault is meant for.
    """
    env = dict(base)
    for name in ("NO_PROXY", "no_proxy", "no_grpc_proxy"):
        env[name] = ",".join(filter(None, (env.get(name, ""), _NO_PROXY)))
    env["UNITY_RL_RUN"] = run
    env["FAKEUNITY_ENV_ID"] = str(env_id)
    env["FAKEUNITY_INCARNATION"] = str(incarnation)
    return env


class PlayerProcess:
    """One launched player. All methods are called on the loop that started it.

    find_command: called by `start`; may raise UsageError. uses_pidfd: watch by a descriptor, not a thread.
    """

    def __init__(
        self,
        find_command: Callable[[], Sequence[str]],
        *,
        env: Mapping[str, str],
        log: Path | None,
        place: Place,
        uses_pidfd: bool = hasattr(os, "pidfd_open"),
    ) -> None:
        self._find_command = find_command
        self._env = dict(env)
        self._log = log
        self._place = place
        self._popen: subprocess.Popen[bytes] | None = None
        self._exited: asyncio.Future[int] | None = None
        self._on_exit: Callable[[], None] = lambda: None
        self._command = ""
        self._told = -1
        self.refusal: EnvironmentFactoryError | None = None
        """Why there never was a player, once the process that should have become it has ended."""
        self._uses_pidfd = uses_pidfd
        self._pidfd = -1
        self._pipe = -1
        self._printed = 0
        self._tail: deque[bytes] = deque(maxlen=TAIL_LINES)

    @property
    def pid(self) -> int:
        """The process id, 0 before `start`."""
        return self._popen.pid if self._popen is not None else 0

    @property
    def log(self) -> Path | None:
        """The player's log file, if it was given one."""
        return self._log

    @property
    def is_alive(self) -> bool:
        """True while the process runs."""
        return self._exited is not None and not self._exited.done()

    def tail(self) -> list[str]:
        """The last lines that the player printed."""
        return [line.decode(errors="replace") for line in self._tail]

    def start(self, on_exit: Callable[[], None]) -> None:
        """Launches the player. `on_exit` is called once, on the loop, when its process has ended.

        Raises EnvironmentFactoryError when there is no such player, or the system cannot start it.
        """
        loop = asyncio.get_running_loop()
        self._on_exit = on_exit
        try:
            command = list(self._find_command())
        except UsageError as error:
            raise self._not_started(str(error)) from error
        read_end, write_end = os.pipe()
        self._told, tell = os.pipe()
        os.set_blocking(self._told, False)
        try:
            # On the loop's own thread: a leash may follow the thread that forks.
            self._popen = subprocess.Popen(
                leashed_command(command, os.getpid(), tell),
                stdin=subprocess.DEVNULL,
                stdout=write_end,
                stderr=write_end,
                env=self._env,
                start_new_session=True,
                pass_fds=(tell,) if LEASHES else (),
            )
        except OSError as error:
            os.close(read_end)
            self._take_told()
            raise self._not_started(_NOT_STARTED.format(command[0], error)) from error
        finally:
            os.close(write_end)
            os.close(tell)
        self._command = command[0]
        self._exited = loop.create_future()
        os.set_blocking(read_end, False)
        self._pipe = read_end
        loop.add_reader(read_end, self._drain)
        self._watch(loop, self._popen)

    async def wait(self, timeout_s: float) -> bool:
        """True when the process ends within `timeout_s`."""
        if self._exited is None:
            return True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._exited), timeout_s)
        return self._exited.done()

    async def end(self, grace_s: float) -> None:
        """Waits `grace_s` for the player to leave by itself, then terminates it, then kills its whole process group."""
        if self._popen is None:
            return
        if not await self.wait(grace_s):
            self._signal_group(signal.SIGTERM)
            if not await self.wait(_TERMINATE_S):
                self._signal_group(signal.SIGKILL)
                await self.wait(_TERMINATE_S)
        self._close_pipe()
        self._take_told()

    def describe_exit(self) -> str:
        """How the process ended, in words, with the last lines of its log."""
        if self._exited is None or not self._exited.done():
            return f"its process (pid {self.pid}) is alive"
        code = self._exited.result()
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"its process (pid {self.pid}) was ended by {signal.Signals(-code).name}{self._last_lines()}"
        return f"its process (pid {self.pid}) ended with exit code {code}{self._last_lines()}"

    def _not_started(self, text: str) -> EnvironmentFactoryError:
        place = self._place
        return EnvironmentFactoryError(
            f"{place.environment}: {text}", env_id=place.env_id, incarnation=place.incarnation
        )

    def _watch(self, loop: asyncio.AbstractEventLoop, popen: subprocess.Popen[bytes]) -> None:
        if self._uses_pidfd:
            with contextlib.suppress(OSError):  # old kernels
                self._pidfd = os.pidfd_open(popen.pid)
                loop.add_reader(self._pidfd, self._reap)
                return
        threading.Thread(target=self._watch_in_thread, args=(loop, popen), daemon=True).start()

    def _watch_in_thread(self, loop: asyncio.AbstractEventLoop, popen: subprocess.Popen[bytes]) -> None:
        os.waitid(os.P_PID, popen.pid, os.WEXITED | os.WNOWAIT)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is interested any more
            loop.call_soon_threadsafe(self._reap)

    def _reap(self) -> None:
        """Ends what the player left behind, then collects its exit code: until then its id is still its own."""
        if self._popen is None or self._exited is None or self._exited.done():
            return
        loop = asyncio.get_running_loop()
        self._signal_group(signal.SIGKILL)
        if self._pidfd >= 0:
            loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
        code = self._popen.wait()
        self._drain()
        self._hear_refusal()
        self._exited.set_result(code)
        self._on_exit()

    def _hear_refusal(self) -> None:
        """Whether the process ended because it could not become the player."""
        reason = self._take_told()
        if reason:
            self.refusal = self._not_started(_NOT_STARTED.format(self._command, reason))

    def _take_told(self) -> str:
        """What the process told before it became the player, if anything; nothing is heard after that."""
        told, self._told = self._told, -1
        reason = b""
        if told >= 0:
            with contextlib.suppress(BlockingIOError):
                reason = os.read(told, _PIPE_BYTES)
            os.close(told)
        return reason.decode(errors="replace")

    def _signal_group(self, number: signal.Signals) -> None:
        if self._popen is not None and self._popen.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._popen.pid, number)

    def _drain(self) -> None:
        """Takes what the player printed: into the log file up to a limit, its last lines into memory."""
        if self._pipe < 0:
            return
        try:
            printed = os.read(self._pipe, _PIPE_BYTES)
        except BlockingIOError:
            return
        if not printed:
            self._close_pipe()
            return
        self._tail.extend(line for line in printed[-_TAIL_BYTES:].splitlines() if line.strip())
        room = PRINTED_BYTES_MAX - self._printed
        self._printed += len(printed)
        if self._log is not None and room > 0:
            note = b"\n[the rest of what the player printed is left out]\n" if len(printed) > room else b""
            with (
                contextlib.suppress(OSError),
                self._log.open("ab") as file,
            ):  # a full disk costs the log, not the player
                file.write(printed[:room] + note)

    def _close_pipe(self) -> None:
        if self._pipe >= 0:
            with contextlib.suppress(RuntimeError):
                asyncio.get_running_loop().remove_reader(self._pipe)
            os.close(self._pipe)
            self._pipe = -1

    def _last_lines(self) -> str:
        lines = self.tail()
        if self._log is not None:
            with contextlib.suppress(OSError), self._log.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
                told = file.read().decode(errors="replace").splitlines()
                lines = [each for each in told if each.strip()][-TAIL_LINES:]
        if not lines:
            return "" if self._log is None else f"; its log {self._log} is empty"
        where = f" of {self._log}" if self._log is not None else " that it printed"
        text = "\n".join("  " + line for line in lines)
        count = "line" if len(lines) == 1 else f"{len(lines)} lines"
        return f"; the last {count}{where}:\n{text}"
