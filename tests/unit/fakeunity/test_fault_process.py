"""What faults do to a process and its connection: a relay that cuts after exact bytes, floods, children, endings."""

import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from fakeunity.cli import main
from fakeunity.faults.plan import parse_plan
from fakeunity.faults.player import HostedBody
from fakeunity.faults.process import ProcessBody, Relay, port_to_dial, wait_s
from tests.support.ports import free_port

ROOT = Path(__file__).parents[3]
WAIT_S = 20.0


@contextmanager
def relayed() -> Iterator[tuple[Relay, socket.socket, socket.socket]]:
    """A relay, and both ends of a connection through it: the player's and the trainer's."""
    with socket.create_server(("127.0.0.1", 0)) as trainer:
        trainer.settimeout(WAIT_S)
        relay = Relay(trainer.getsockname()[1])
        with socket.create_connection(("127.0.0.1", relay.port), timeout=WAIT_S) as player:
            accepted, _ = trainer.accept()
            with accepted:
                accepted.settimeout(WAIT_S)
                yield relay, player, accepted


def everything(end: socket.socket) -> tuple[int, bool]:
    """How many bytes still come, and whether a reset ends them."""
    count = 0
    while True:
        try:
            chunk = end.recv(65536)
        except ConnectionResetError:
            return count, True
        if not chunk:
            return count, False
        count += len(chunk)


def test_a_relay_passes_both_ways_and_cuts_after_exactly_so_many_bytes() -> None:
    with relayed() as (relay, player, trainer):
        player.sendall(b"up" * 1000)
        assert trainer.recv(2000, socket.MSG_WAITALL) == b"up" * 1000
        trainer.sendall(b"down")
        assert player.recv(4, socket.MSG_WAITALL) == b"down"
        relay.cut(37)
        player.sendall(bytes(20))
        assert len(trainer.recv(20, socket.MSG_WAITALL)) == 20
        player.sendall(bytes(1000))
        left, is_reset = everything(trainer)
        assert is_reset
        assert left <= 17  # a reset may throw away what was not read yet
        assert everything(player) == (0, True)


def test_a_relay_ends_as_the_trainer_ends() -> None:
    with relayed() as (_, player, trainer):
        trainer.close()
        assert everything(player)[0] == 0


def test_a_player_may_dial_before_its_trainer_is_there() -> None:
    port = free_port()
    relay = Relay(port)
    with socket.create_connection(("127.0.0.1", relay.port), timeout=WAIT_S) as early:
        assert everything(early)[0] == 0
    with (
        socket.create_server(("127.0.0.1", port)) as trainer,
        socket.create_connection(("127.0.0.1", relay.port), timeout=WAIT_S) as player,
    ):
        trainer.settimeout(WAIT_S)
        accepted, _ = trainer.accept()
        with accepted:
            player.sendall(b"late")
            assert accepted.recv(4, socket.MSG_WAITALL) == b"late"


def test_only_a_plan_that_cuts_needs_a_relay() -> None:
    body = ProcessBody()
    assert port_to_dial(parse_plan("crash@step=1"), body, 5005) == 5005
    with pytest.raises(ValueError, match="start one before the player dials"):
        body.cut(1)
    assert port_to_dial(parse_plan("rst@step=1"), body, 5005) != 5005
    assert body.relay is not None
    body.cut(1)


def test_a_hosted_player_has_neither_output_nor_children_nor_a_connection() -> None:
    body = HostedBody()
    acts: list[Callable[[], None]] = [lambda: body.flood(1.0), lambda: body.fork(1.0), lambda: body.cut(1)]
    for act in acts:
        with pytest.raises(ValueError, match="use link=grpc"):
            act()


def ran(program: str) -> subprocess.CompletedProcess[bytes]:
    setup = "from fakeunity.faults.process import ProcessBody, wait_s; body = ProcessBody(); "
    return subprocess.run(
        [sys.executable, "-c", setup + program], cwd=ROOT, capture_output=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("how", "code"), [("0", 0), ("255", 255), ("SEGV", -signal.SIGSEGV), ("KILL", -signal.SIGKILL)]
)
def test_a_crash_ends_the_process_as_asked_and_runs_nothing_more(how: str, code: int) -> None:
    done = ran(f"import atexit; atexit.register(print, 'cleaned up'); body.crash({how!r})")
    assert (done.returncode, done.stdout) == (code, b"")


def test_a_flood_is_as_long_as_asked() -> None:
    assert len(ran("body.flood(2.5)").stdout) == int(2.5 * (1 << 20))


def test_a_child_outlives_its_player(tmp_path: Path) -> None:
    program = "from fakeunity.faults.process import ProcessBody; body = ProcessBody(); body.fork(50.0); body.crash('3')"
    with (tmp_path / "printed").open("wb") as printed:
        done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, stdout=printed, timeout=60, check=False)
    child = psutil.Process(int((tmp_path / "printed").read_text().split()[1]))
    assert done.returncode == 3
    assert child.is_running()
    child.kill()
    gone, _ = psutil.wait_procs([child], timeout=WAIT_S)
    assert gone


def test_waiting_is_exact_or_endless() -> None:
    slept: list[float] = []
    wait_s(0.0, slept.append)
    wait_s(0.25, slept.append)
    assert slept == [0.25]
    program = "from fakeunity.faults.process import wait_s; wait_s(float('inf'), print)"
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT) as silent:
        with pytest.raises(subprocess.TimeoutExpired):
            silent.wait(1.0)
        silent.kill()


def test_faults_of_the_command_line_are_installed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "game"
    words = ["--fault", "hang@step=3", "--fault", "crash:9@close+once", "--fault-once", str(tmp_path / "marks")]
    assert main(["install", "basic", str(file), *words]) == 0
    text = file.read_text()
    assert "hang%40step" in text
    assert "crash%3Ahow%3D9%40close%2Bonce" in text
    assert main(["basic", "--mlagents-port", "1", "--fault", "crsh@close"]) == 2
    assert "did you mean 'crash'" in capsys.readouterr().err
    assert main(["basic", "--mlagents-port", "1", "--incarnation", "x"]) == 2


def test_replaying_what_is_not_there_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(tmp_path / "absent"), "--mlagents-port", "1"]) == 2
    assert "there is no such recording" in capsys.readouterr().err
    assert main(["replay", "--mlagents-port", "1"]) == 2
    assert "which recording?" in capsys.readouterr().err
    (tmp_path / "empty").touch()
    assert main(["replay", str(tmp_path / "empty"), "--port", "1", "--tolerant", "--connect-timeout-s", "1"]) == 1
    assert "no cassette" in capsys.readouterr().err
