"""A player's process: its end is told once, what it prints is kept within limits, and force is the last resort."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from runtime.errors import EnvironmentFactoryError
from runtime.players.places import Place
from runtime.players.process import PRINTED_BYTES_MAX, PlayerProcess

Result = TypeVar("Result")


def python(source: str, log: Path | None = None, *, uses_pidfd: bool = True) -> PlayerProcess:
    return PlayerProcess(
        lambda: [sys.executable, "-c", source], env=os.environ, log=log, place=Place(1, 2), uses_pidfd=uses_pidfd
    )


def run(work: Coroutine[Any, Any, Result]) -> Result:
    return asyncio.run(asyncio.wait_for(work, 60.0))


@pytest.mark.parametrize("uses_pidfd", [False, hasattr(os, "pidfd_open")])
def test_its_end_is_told_once_and_described(tmp_path: Path, uses_pidfd: bool) -> None:  # noqa: FBT001 - a parameter
    lines = "\\n".join(f"line {number}" for number in range(30))
    process = python(f"print('{lines}'); raise SystemExit(4)", tmp_path / "p.log", uses_pidfd=uses_pidfd)
    told: list[str] = []

    async def life() -> None:
        process.start(lambda: told.append(process.describe_exit()))
        assert process.is_alive
        assert process.describe_exit() == f"its process (pid {process.pid}) is alive"
        assert await process.wait(30.0)
        await process.end(0.0)

    run(life())
    (text,) = told
    assert text.startswith(f"its process (pid {process.pid}) ended with exit code 4; the last 20 lines of")
    assert "line 10\n" in text
    assert "line 9\n" not in text
    assert not psutil.pid_exists(process.pid)


def test_without_a_log_the_last_lines_come_from_memory() -> None:
    process = python("print('only in memory')")

    async def life() -> None:
        process.start(lambda: None)
        await process.wait(30.0)
        await process.end(0.0)

    run(life())
    assert "the last line that it printed:\n  only in memory" in process.describe_exit()


def test_what_it_prints_is_kept_up_to_a_limit(tmp_path: Path) -> None:
    log = tmp_path / "p.log"
    process = python(f"for _ in range(64): print('x' * {PRINTED_BYTES_MAX // 16})", log)

    async def life() -> None:
        process.start(lambda: None)
        assert await process.wait(30.0)
        await process.end(0.0)

    run(life())
    assert PRINTED_BYTES_MAX <= log.stat().st_size <= PRINTED_BYTES_MAX + 100
    assert b"left out" in log.read_bytes()[-100:]


@pytest.mark.parametrize(("ignored", "name"), [("", "SIGTERM"), ("signal.signal(15, signal.SIG_IGN);", "SIGKILL")])
def test_it_is_terminated_and_then_killed(ignored: str, name: str) -> None:
    process = python(f"import signal; {ignored} print('ready', flush=True); signal.pause()")

    async def life() -> float:
        process.start(lambda: None)
        while "ready" not in process.tail():
            await process.wait(0.01)
        began = time.monotonic()
        await process.end(0.1)
        return time.monotonic() - began

    assert run(life()) < 5.0
    assert f"was ended by {name}" in process.describe_exit()


def test_it_is_not_in_our_session_so_that_interrupts_pass_it_by() -> None:
    process = python("import signal; signal.pause()")

    async def life() -> int:
        process.start(lambda: None)
        session = os.getsid(process.pid)
        await process.end(0.0)
        return session

    assert run(life()) == process.pid != os.getsid(0)


def test_an_environment_that_the_system_refuses_is_named() -> None:
    process = PlayerProcess(lambda: [sys.executable], env={"BIG": "x" * (1 << 22)}, log=None, place=Place(1, 2))

    async def life() -> None:
        process.start(lambda: None)

    with pytest.raises(
        EnvironmentFactoryError, match=r"environment 1 \(incarnation 2\): the player .* could not be started"
    ):
        run(life())
    assert process.pid == 0
    run(process.end(0.0))


def test_it_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    source = (
        "import asyncio, os, sys\n"
        "from pathlib import Path\n"
        "from runtime.players.places import Place\n"
        "from runtime.players.process import PlayerProcess\n"
        "async def life():\n"
        "    command = [sys.executable, '-c', 'import signal; print(1, flush=True); signal.pause()']\n"
        "    process = PlayerProcess(lambda: command, env=os.environ, log=None, place=Place(0))\n"
        "    process.start(lambda: None)\n"
        "    while not process.tail(): await process.wait(0.01)\n"
        "    print(process.pid, flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
        "asyncio.run(life())\n"
    )
    root = Path(__file__).parents[3]
    outer = PlayerProcess(
        lambda: [sys.executable, "-c", source],
        env={**os.environ, "PYTHONPATH": str(root)},
        log=tmp_path / "p.log",
        place=Place(0),
    )

    async def life() -> None:
        outer.start(lambda: None)
        assert await outer.wait(30.0)

    run(life())
    assert signal.SIGKILL.name in outer.describe_exit()
    inner = int((tmp_path / "p.log").read_text().split()[0])
    if psutil.pid_exists(inner):
        psutil.Process(inner).wait(timeout=5.0)
