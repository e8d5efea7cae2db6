"""Every fuzz target takes its own seeds and survives some thousands of seeded mutations in bounded time."""

import pytest

from tests.fuzz.run import execute, fuzz, main
from tests.fuzz.targets import TARGETS, Target

EXECUTIONS = 1500


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_takes_the_bytes_that_it_begins_with(name: str) -> None:
    assert all(execute(TARGETS[name], seed) for seed in TARGETS[name].seeds)


@pytest.mark.parametrize("name", TARGETS)
def test_nearly_right_bytes_are_taken_or_refused_as_declared(name: str) -> None:
    taken, slowest_s = fuzz(TARGETS[name], executions=EXECUTIONS, seed=1)
    assert taken < EXECUTIONS or name == "introduction", "the mutations never do any harm"
    assert slowest_s < 5.0


def test_a_finding_is_not_taken_for_a_refusal() -> None:
    def fail(_body: bytes) -> None:
        raise KeyError("undeclared")

    with pytest.raises(KeyError, match="undeclared"):
        fuzz(Target(fail, (ValueError,), (b"x",)), executions=1, seed=0)


def test_the_command_says_how_much_was_tried(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["side_channel", "--executions", "50"]) == 0
    assert capsys.readouterr().out.startswith("side_channel: 50 executions, ")
