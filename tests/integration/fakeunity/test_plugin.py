"""Test sessions of other projects: our fixtures are there, and a failing test says how to replay it."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

from fakeunity.testing.drawing import drawn_plan

ROOT = Path(__file__).parents[3]
SESSION_S = 120
# A test that fails for some seeds only would be replayed by its line; this one shows what it was given.
FAILING = """\
def test_something(fake_unity_seed, fake_unity_faults, fake_unity_player):
    plan = fake_unity_faults("crash", "hang", phases=("step",), numbers_max=900)
    fake_unity_player("basic", agents=2, fault=plan)
    assert not f"given {fake_unity_seed} and {plan}"

def test_nothing_of_ours():
    assert False

def test_a_process(fake_unity_process, free_port, tmp_path):
    player = fake_unity_process("basic", free_port, agents=3)
    (tmp_path.parent / "pid").write_text(str(player.pid))
    assert player.poll() is not None, "still alive"
"""


def session(folder: Path, *arguments: str) -> str:
    """What pytest prints in a folder that is another project's."""
    (folder / "test_theirs.py").write_text(FAILING)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", str(folder / "t")]
    ran = subprocess.run(
        [*command, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=SESSION_S,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    return ran.stdout + ran.stderr


def test_a_failing_test_prints_the_line_that_replays_it_and_leaves_no_player(tmp_path: Path) -> None:
    output = session(tmp_path)
    lines = [shlex.split(line) for line in output.splitlines() if line.startswith("replay: pytest")]
    assert [line[2] for line in lines] == ["test_theirs.py::test_something", "test_theirs.py::test_a_process"], output
    node_id, seed, fault = lines[0][2:]
    number = seed.removeprefix("--fakeunity-seed=")
    plan = drawn_plan(int(number), ("crash", "hang"), phases=("step",), numbers_max=900)
    assert fault == f"--fakeunity-fault={plan}"
    assert f"given {number} and {plan}" in output
    assert f"player: {sys.executable} -m fakeunity basic --agents=2" in output
    assert "still alive" in output
    assert not Path(f"/proc/{(tmp_path / 't' / 'pid').read_text()}").exists()

    again = session(tmp_path, node_id, seed, "--fakeunity-fault=crash@close")
    assert f"given {number} and crash:how=1@close" in again


def test_a_drawn_plan_is_that_of_its_seed_and_of_the_verbs() -> None:
    plans = [drawn_plan(seed, ("crash", "vanish"), phases=("step", "close"), faults_max=3) for seed in range(50)]
    assert plans == [
        drawn_plan(seed, ("crash", "vanish"), phases=("step", "close"), faults_max=3) for seed in range(50)
    ]
    faults = [fault for plan in plans for fault in plan.faults]
    assert {(fault.verb, fault.phase) for fault in faults} == {
        ("crash", "step"),
        ("crash", "close"),
        ("vanish", "step"),
    }
    assert {len(plan.faults) for plan in plans} == {1, 2, 3}
    assert {fault.first for fault in faults if fault.phase == "step"} <= set(range(1, 21))
