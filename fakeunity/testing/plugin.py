"""Pytest fixtures for tests of programs that drive Unity players. Register it as `pytest11: fakeunity`.

Players to install or to start, a port, a seed and a plan of faults. A test that used any of them and fails ends with
the line that runs it again with the same seed and the same faults, and with the command of each of its players.
"""

from __future__ import annotations

import contextlib
import secrets
import shlex
import socket
import subprocess
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from fakeunity.faults.plan import FaultPlan
    from fakeunity.spec import PlayerSpec

# Pytest loads plugins before anything is measured or asked of it: the rest of the package is imported when a test
# uses it, so that its lines count as covered and every other test session starts as fast as without us.

SEED_OPTION = "--fakeunity-seed"
FAULT_OPTION = "--fakeunity-fault"
SEED_BITS = 31
STOP_S = 10.0


@dataclass(slots=True)
class _Used:
    """What one test used of ours."""

    options: list[str] = field(default_factory=list)
    players: list[str] = field(default_factory=list)

    def report(self, node_id: str) -> str:
        """The line that replays the test, and the players that it had."""
        lines = [f"replay: pytest {shlex.quote(node_id)}" + "".join(f" {shlex.quote(each)}" for each in self.options)]
        return "\n".join([*lines, *(f"player: {player}" for player in self.players)])


_USED = pytest.StashKey[_Used]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options that replay a test."""
    group = parser.getgroup("fakeunity", "players without Unity")
    group.addoption(SEED_OPTION, type=int, metavar="N", help="the seed of every test that asks for one (else: random)")
    group.addoption(FAULT_OPTION, metavar="PLAN", help="the faults of every test that asks for some, as 'crash@step=3'")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Ends a failure with the line that replays it."""
    report = yield
    used = item.stash.get(_USED, None)
    if report.failed and used is not None:
        report.sections.append(("fakeunity", used.report(item.nodeid)))
    return report


def _used(request: pytest.FixtureRequest) -> _Used:
    node: pytest.Item = request.node
    return node.stash.setdefault(_USED, _Used())


@pytest.fixture
def fake_unity_seed(request: pytest.FixtureRequest) -> int:
    """A number of 31 bits, another one in every run of the test, unless `--fakeunity-seed` says which."""
    given: int | None = request.config.getoption(SEED_OPTION)
    seed = secrets.randbits(SEED_BITS) if given is None else given
    _used(request).options.append(f"{SEED_OPTION}={seed}")
    return seed


@pytest.fixture
def fake_unity_faults(request: pytest.FixtureRequest, fake_unity_seed: int) -> Callable[..., FaultPlan]:
    """A function (*verbs, **options) -> plan of faults, drawn from the test's seed as `drawn_plan` does.

    Give it to a player as its option `fault`. `--fakeunity-fault` says which plan it is in place of a drawn one.
    """
    from fakeunity.faults.plan import parse_plan  # noqa: PLC0415 - see above
    from fakeunity.testing.drawing import drawn_plan  # noqa: PLC0415 - see above

    def plan(*verbs: str, phases: Sequence[str] = (), faults_max: int = 1, numbers_max: int = 20) -> FaultPlan:
        given: str | None = request.config.getoption(FAULT_OPTION)
        limits = {"faults_max": faults_max, "numbers_max": numbers_max}
        chosen = drawn_plan(fake_unity_seed, verbs, phases=phases, **limits) if given is None else parse_plan(given)
        _used(request).options.append(f"{FAULT_OPTION}={chosen}")
        return chosen

    return plan


@pytest.fixture
def fake_unity_player(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Path]:
    """A function (scene, **options) -> path of an executable player, as `install` writes it; options as in a URL."""
    from fakeunity.install import install  # noqa: PLC0415 - see above

    def installed(scene: str, **options: object) -> Path:
        spec = _spec(scene, options)
        file = tmp_path / f"{scene}-{len(list(tmp_path.glob('*.x86_64')))}.x86_64"
        install(spec, file)
        _used(request).players.append(shlex.join(spec.command_line()))
        return file

    return installed


@pytest.fixture
def fake_unity_process(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """A function (scene, port, **options) -> process of a player that dials that port, as the Editor would.

    Its output goes to a file `player-N.log` in the test's `tmp_path`. Players still alive after the test are killed.
    """
    with contextlib.ExitStack() as stack:

        def started(scene: str, port: int, **options: object) -> subprocess.Popen[str]:
            command = _spec(scene, options).command_line(port=port)
            log = stack.enter_context((tmp_path / f"player-{len(_used(request).players)}.log").open("w"))
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, text=True)
            stack.callback(_ended, process)
            _used(request).players.append(shlex.join(command))
            return process

        yield started


@pytest.fixture
def free_port() -> int:
    """A TCP port that nobody on this machine listened to a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _spec(scene: str, options: dict[str, object]) -> PlayerSpec:
    from fakeunity.spec import from_options  # noqa: PLC0415 - see above

    return from_options(scene, [(key, str(value)) for key, value in options.items()])


def _ended(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait(timeout=STOP_S)
