"""`python -m runtime.simulate`: what it prints and with which code it ends."""

from __future__ import annotations

import signal

import pytest

from runtime.simulate import main
from runtime.simulation.campaign import started_processes
from tests.support.interrupts import ctrl_c


def test_one_seed_alone_is_simulated_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "3"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("1 schedules of ")
    assert "schedules/s per core, 0 failed" in out


def test_a_line_is_replayed_with_its_drawing_and_the_same_trace(capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for _ in range(2):
        assert main(["--replay", "v1:troubled:16:agents=1:skip=3,5-9", "--rows", "12"]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    assert "every invariant held" in texts[0]
    assert "o----" in texts[0]


def test_seeds_are_shared_by_processes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--count", "60", "--jobs", "2", "--profile", "quiet"]) == 0
    assert capsys.readouterr().out.startswith("60 schedules of ")


def test_ctrl_c_ends_a_simulation_with_one_word(capsys: pytest.CaptureFixture[str]) -> None:
    with ctrl_c(lambda: True):
        assert main(["--count", "40", "--jobs", "1"]) == 130
    assert capsys.readouterr() == ("", "interrupted\n")


def test_ctrl_c_reaches_the_process_that_was_started_by_hand_and_not_those_that_it_starts() -> None:
    with started_processes(1) as pool:
        assert signal.SIGINT in pool.apply(signal.pthread_sigmask, (signal.SIG_BLOCK, ()))
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("troubled:16", "is no line of a simulation; expected v1:PROFILE:SEED"),
        ("v1:trouble:16", "there is no profile 'trouble'; there are: quiet, troubled"),
        ("v1:troubled:x", "has a number that is none"),
        ("v1:troubled:1:skip=3-x", "has a number that is none"),
        ("v1:troubled:1:skip=9-1", "or a range that ends before it begins"),
        ("v1:troubled:1:worker=2", "there is no option 'worker'; there are: workers"),
        (
            "v1:troubled:64:skip=1-99999999999",
            "skip: 1-99999999999 is beyond every choice of a run; expected numbers below",
        ),
        ("v1:troubled:1:agents=99999999", "'99999999' is no value of the option 'agents'; expected a number of agents"),
        ("v1:troubled:1:workers=1.99", "'1.99' is no value of the option 'workers'; expected environments of each"),
        ("v1:troubled:-1", "has the seed -1; expected an integer from 0 on"),
        ("v1:troubled:1:workers=0", "'0' is no value of the option 'workers'; expected environments of each EnvWorker"),
    ],
)
def test_a_line_that_cannot_be_read_is_told_and_ends_with_2(
    line: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--replay", line]) == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "first", "second"),
    [
        (["--replay", "v1:quiet:1", "--shrink", "v1:quiet:1"], "--replay", "--shrink"),
        (["--replay", "v1:quiet:1", "--seed", "0"], "--replay", "--seed"),
        (["--shrink", "v1:quiet:1", "--until-failure"], "--shrink", "--until-failure"),
        (["--list-mutants", "--replay", "v1:quiet:1"], "--list-mutants", "--replay"),
    ],
)
def test_an_option_that_would_have_no_part_is_refused(
    options: list[str], first: str, second: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(options) == 2
    assert f"{second} has no meaning beside {first}" in capsys.readouterr().err


def test_shrinking_what_does_not_fail_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--shrink", "v1:quiet:1"]) == 2
    assert "does not fail, so there is nothing to shrink" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--count", "0"], "argument --count: found '0', expected an integer from 1 on"),
        (["--seed", "-1"], "argument --seed: found '-1', expected an integer from 0 on"),
        (["--seed", "x"], "argument --seed: found 'x', expected an integer from 0 on"),
        (["--jobs", "two"], "argument --jobs: found 'two', expected an integer from 1 on"),
        (["--profile", "calm"], "argument --profile: invalid choice: 'calm'"),
    ],
)
def test_options_that_mean_nothing_end_with_2(
    options: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(options)
    assert ended.value.code == 2
    assert text in capsys.readouterr().err
