"""Plans of faults: every legal one survives its own text, every illegal one names the mistake and the nearest word."""

import re
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakeunity.errors import SpecError
from fakeunity.faults.clock import FaultClock
from fakeunity.faults.plan import CONDITIONS, Fault, FaultPlan, Moment, Who, parse_plan
from fakeunity.faults.verbs import PHASES, VERBS
from fakeunity.spec import from_options, parse_url
from fakeunity.testing.strategies import fault_plans


@given(fault_plans(once_folder=Path("marks")))
def test_a_plan_survives_its_own_text_url_and_options(plan: FaultPlan) -> None:
    assert parse_plan(str(plan)).faults == plan.faults
    spec = from_options("basic", [("fault", str(plan)), ("fault_once", "marks")])
    assert spec.faults == plan
    assert parse_url(spec.url()) == spec
    assert from_options("basic", spec.options().items()) == spec


def test_no_fault_is_an_empty_text_in_every_place_that_takes_a_plan() -> None:
    assert parse_plan(str(FaultPlan())) == parse_plan(" ") == FaultPlan()
    plain = parse_url("fake:basic")
    assert parse_url("fake:basic?fault=") == from_options("basic", [("fault", "")]) == plain
    assert parse_url("fake:basic?fault=&fault=crash@close&fault=").faults == parse_plan("crash@close")
    damaged = from_options("basic", [("fault", "crash@close")])
    assert from_options("basic", [("fault", "")], damaged) == plain


@given(st.text(max_size=40) | st.text("crashneltov:@=;+-0123456789", max_size=40))
def test_any_text_is_a_plan_or_a_spec_error(text: str) -> None:
    try:
        plan = parse_plan(text)
    except SpecError:
        return
    assert parse_plan(str(plan)) == plan


def test_words_mean_what_the_module_says() -> None:
    crash, nan, delay, vanish = parse_plan(
        "crash:9@step=17+env=2+once; nan:agent=3:index=2@step=40-;delay:5:sigma=1@reset;vanish:7@step=20"
    ).faults
    expected = Fault(verb="crash", phase="step", values=(9,), first=17, last=17, env_id=2, once=True)
    assert crash == expected
    assert [nan.value(name) for name in ("agent", "index", "sensor", "field")] == [3, 2, 0, "observation"]
    assert (nan.first, nan.is_due(Moment("step", 10**8, 0))) == (40, True)
    assert (delay.values, delay.is_due(Moment("reset", 5, 9))) == ((5.0, 0.0, 1.0), True)
    assert [vanish.is_due(Moment("step", number, 0)) for number in (19, 20, 5000)] == [False, True, True]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("crash", "has no phase; write VERB@PHASE"),
        (";", "has no phase"),
        ("crash@step=1;", "fault '' has no phase"),
        ("crsh@step=1", "unknown fault 'crsh'; did you mean 'crash'"),
        ("crash@stp=1", "unknown phase 'stp'; did you mean 'step'"),
        ("crash@step=", "'' is no number; expected N, N-M or N-"),
        ("crash@step=0", "'0' is no number"),
        ("crash@step=9-3", "step=9-3: expected numbers from 1 on, the smaller one first"),
        ("crash@exchange", "phase 'exchange' needs a number"),
        ("crash@handshake=2", "phase 'handshake' comes once"),
        ("crash:300@step=1", "how='300': expected an exit code or a signal"),
        ("crash:SEGF@step=1", "how='SEGF'"),
        ("crash:1:2@step=1", "takes 1 parameters; '2' is too many"),
        ("crash:haw=1@step=1", "unknown parameter of fault 'crash' 'haw'; did you mean 'how'"),
        ("hang:x=1@step=1", "fault 'hang' takes no parameters"),
        ("nan:agent=1:agent=2@step=1", "parameter 'agent' is given twice"),
        ("nan:field=rewrd@step=1", "field='rewrd': expected observation or reward"),
        ("version:9.9.9@step=3", "fault 'version' cannot happen at 'step', only at handshake"),
        ("nan@handshake", "fault 'nan' cannot happen at 'handshake'"),
        ("crash@step=1+envi=3", "unknown condition 'envi'; did you mean 'env'"),
        ("crash@step=1+env=1+env=2", "condition 'env' is given twice"),
        ("crash@step=1+env", "condition 'env': expected env=N"),
        ("crash@step=1+once=2", "condition 'once=2': expected"),
        ("nan@step=1+before", "before is for crash and hang"),
        ("crash@close+before", "before is for crash and hang at reset, step or exchange"),
        ("delay:nan@step=1", "ms='nan'"),
        ("pad:mib=1e9@step=1", "mib='1e9'"),
    ],
)
def test_what_is_wrong_is_named(text: str, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_plan(text)
    assert words in str(caught.value)


def test_a_fault_made_in_python_is_checked_as_one_that_is_read() -> None:
    assert Fault(verb="crash", phase="step").values == (1,)
    mistakes: list[tuple[dict[str, Any], str]] = [  # keyword arguments
        ({"verb": "crush", "phase": "step"}, "unknown fault 'crush'"),
        ({"verb": "crash", "phase": "steps"}, "unknown phase 'steps'"),
        ({"verb": "version", "phase": "handshake", "values": ("1;2",)}, "may be in a parameter"),
        ({"verb": "hang", "phase": "step", "values": (1,)}, "takes 0 parameters"),
    ]
    for wrong, words in mistakes:
        with pytest.raises(SpecError, match=words):
            Fault(**wrong)


def test_once_needs_a_folder_and_processes_a_process() -> None:
    with pytest.raises(SpecError, match=r"fault_once=DIR \(--fault-once DIR\)"):
        parse_url("fake:basic?fault=crash@step=1+once")
    for verb in ("flood", "fork", "rst"):
        with pytest.raises(SpecError, match=f"fault '{verb}' needs a process of the player's own: link=grpc"):
            parse_url(f"fake:basic?link=memory&fault={verb}@step=1")


def test_faults_may_be_given_again() -> None:
    spec = from_options("basic", [("fault", "hang@step=3"), ("agents", "1"), ("fault", "crash@close;nan@step=1")])
    assert [fault.verb for fault in spec.faults.faults] == ["hang", "crash", "nan"]


def test_a_fault_is_for_its_environment_and_incarnation() -> None:
    plan = parse_plan("crash@step=1+env=2+incarnation=1;hang@close")
    assert [len(plan.for_player(Who(*who))) for who in ((2, 1), (2, 0), (1, 1))] == [2, 1, 1]


def test_once_is_taken_by_one_player_of_many_and_stays_with_it(tmp_path: Path) -> None:
    plan = FaultPlan(parse_plan("nan@step+once").faults, tmp_path / "marks")
    clocks = [FaultClock(plan, Who()) for _ in range(8)]
    barrier = threading.Barrier(len(clocks))

    def live(clock: FaultClock) -> None:
        barrier.wait(30.0)
        for _ in range(3):
            clock.enter("step")
            list(clock.due("nan"))

    threads = [threading.Thread(target=live, args=(clock,)) for clock in clocks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30.0)
    assert sorted(len(clock.fired) for clock in clocks) == [0] * 7 + [3]


def test_the_documentation_names_every_fault_phase_and_condition() -> None:
    page = (Path(__file__).parents[3] / "docs" / "faults.md").read_text(encoding="utf-8")
    for word in (*VERBS, *PHASES, *CONDITIONS):
        assert re.search(rf"`{word}(=N)?`", page), word


def test_every_fault_says_what_it_does_and_can_be_written_without_parameters() -> None:
    for verb in VERBS.values():
        assert verb.sentence
        phase = verb.phases[0]
        assert parse_plan(f"{verb.name}@{phase}=1" if phase == "exchange" else f"{verb.name}@{phase}").faults
