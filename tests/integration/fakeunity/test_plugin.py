"""Test sessions of other projects: our fixtures are there, and a failing test says how to replay it."""

import os
import re
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


def given(output: str) -> str:
    found = re.search(r"given \d+ and [^\n'\"]+", output)
    assert found is not None, output
    return found[0]


def test_the_line_that_a_failing_test_prints_replays_it(tmp_path: Path) -> None:
    first = session(tmp_path)
    line = next(line for line in first.splitlines() if line.startswith("replay: pytest"))
    node_id, seed, fault = shlex.split(line)[2:]
    assert node_id == "test_theirs.py::test_something"
    assert seed.startswith("--fakeunity-seed=")
    assert fault.startswith("--fakeunity-fault=")
    assert f"player: {sys.executable} -m fakeunity basic --agents=2" in first
    again = session(tmp_path, node_id, seed, fault)
    assert given(again) == given(first)
    assert given(session(tmp_path, node_id, seed)) == given(first), "the seed draws the faults"
    other = session(tmp_path, node_id, seed, "--fakeunity-fault=crash@close")
    assert "crash:how=1@close" in given(other)


def test_a_test_without_our_fixtures_is_left_as_it_is_and_no_player_stays(tmp_path: Path) -> None:
    output = session(tmp_path)
    assert output.count("replay: pytest") == 2
    assert "test_nothing_of_ours" not in "".join(line for line in output.splitlines() if line.startswith("replay:"))
    assert "still alive" in output
    pid = int((tmp_path / "t" / "pid").read_text())
    assert not Path(f"/proc/{pid}").exists()


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
