"""What a marathon makes of its figures: each kind of fault is found, and what is sound is not called a fault."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.soak.journals import Entry, JournalBook
from tests.soak.judgement import (
    Account,
    Growth,
    Sample,
    Struck,
    account_of,
    account_saved,
    growth_of_life,
    growth_of_role,
    imbalance,
    role_memory,
    share,
    verdict,
)
from tests.soak.report import Report, document, table

COUNTS = st.integers(0, 10_000)


def test_the_share_of_values_is_by_nearest_rank() -> None:
    values = [float(each) for each in range(20, 0, -1)]
    assert (share(values, 0.95), share(values, 0.5), share(values, 1.0)) == (19.0, 10.0, 20.0)
    assert share([3.0], 0.95) == 3.0


@given(accepted=COUNTS, lost=COUNTS, unreported=COUNTS, in_flight=COUNTS, counted=COUNTS)
def test_an_account_balances_exactly_within_its_bounds(
    accepted: int, lost: int, unreported: int, in_flight: int, counted: int
) -> None:
    account = Account(accepted=accepted, lost={"gap": lost}, unreported_max=unreported)
    text = imbalance(account, counted_before=counted, counted_after=counted, in_flight_max=in_flight)
    assert bool(text) != (accepted + lost <= counted <= accepted + lost + unreported + in_flight)


def test_one_step_too_many_and_one_too_few_are_told_apart() -> None:
    account = Account(accepted=90, lost={"gap": 5}, unreported_max=3)
    assert "twice" in imbalance(account, counted_before=94, counted_after=94, in_flight_max=0)
    assert "missing" in imbalance(account, counted_before=99, counted_after=99, in_flight_max=0)
    assert not imbalance(account, counted_before=94, counted_after=95, in_flight_max=0)


def test_an_account_begins_where_the_checkpoint_ended() -> None:
    saved = account_saved(
        {
            "agent_steps": 100,
            "lost": {"gap": 4},
            "unreported_max": 10,
            "restarts": {"0": 1, "1": 2},
            "worker_restarts": {"0": 1},
            "holder_restarts": 1,
        }
    )
    now = account_of(
        {
            "agent_steps": 160,
            "lost_steps": {"gap": 4, "stale": 6},
            "unreported_steps_max": 12,
            "restarts": {"0": 2, "1": 2},
            "workers": {"0": 1, "1": 1},
            "holder": 2,
        }
    )
    assert now.since(saved) == Account(accepted=60, lost={"stale": 6}, unreported_max=2, restarts=3)


def life(mib: list[float], *, began_s: float = 0.0) -> list[Sample]:
    """One sample a second."""
    return [Sample(began_s + age, float(age), each) for age, each in enumerate(mib)]


def test_a_life_that_grows_steadily_is_not_flat() -> None:
    growth = growth_of_life("EnvWorker", life([100.0 + age * 0.2 for age in range(60)]))
    assert growth is not None
    assert not growth.is_flat


def test_what_a_process_loads_at_its_start_is_no_growth() -> None:
    growth = growth_of_life("EnvWorker", life([20.0 * min(age, 14) for age in range(60)]))
    assert growth is not None
    assert growth.mib == 0.0


def test_what_is_compiled_late_on_a_busy_machine_is_no_growth() -> None:
    late = [Sample(float(age), float(age), 600.0 if age < 50 else 750.0, cpu_s=age * 0.16) for age in range(90)]
    growth = growth_of_life("TrainerController", late)
    assert growth is not None
    assert growth.mib == 0.0


def test_one_high_sample_is_no_growth() -> None:
    growth = growth_of_life("player", life([*[50.0] * 58, 90.0, 50.0]))
    assert growth is not None
    assert growth.is_flat


def test_a_short_life_tells_nothing() -> None:
    assert growth_of_life("EnvWorker", life([100.0] * 12)) is None
    assert growth_of_life("TrainerController", life([600.0] * 35)) is None


def test_the_learner_may_move_by_a_share_of_its_size() -> None:
    assert Growth(early_mib=600.0, late_mib=611.0).is_flat
    assert not Growth(early_mib=600.0, late_mib=613.0).is_flat
    assert not Growth(early_mib=40.0, late_mib=45.0).is_flat


def test_growth_from_life_to_life_is_found() -> None:
    lives = [life([50.0 + number] * 20, began_s=number * 20.0) for number in range(15)]
    assert all(growth_of_life("Supervisor", each) is None for each in lives)
    across = growth_of_role("Supervisor", lives, 300.0)
    assert across is not None
    assert not across.is_flat
    assert role_memory("Supervisor", lives, 300.0).faults == (
        "the memory of Supervisor grew over the marathon from 52 to 62 MiB",
    )


def struck(count: int) -> list[Struck]:
    return [Struck(number=each, victim="player", leg=1, at_s=each * 4.0, noticed_s=0.2) for each in range(count)]


def test_a_marathon_with_all_in_order_has_no_fault() -> None:
    assert verdict(struck(200), wanted=200, has_completed=True, breaches=(), memory=()) == ()


@pytest.mark.parametrize(
    ("kills", "endings", "breaches", "said"),
    [
        (199, 1, (), "only 199 kills"),
        (200, 0, (), "not brought to its end"),
        (200, 1, ("a port is open\nmore",), "broken promise: a port is open"),
    ],
)
def test_each_kind_of_fault_is_named(kills: int, endings: int, breaches: tuple[str, ...], said: str) -> None:
    (fault,) = verdict(struck(kills), wanted=200, has_completed=bool(endings), breaches=breaches, memory=())
    assert said in fault


def report(*faults: str) -> Report:
    return Report(
        command="python -m tests.soak.marathon --seed 1 --minutes 15",
        began_at="2026-01-01T00:00:00+00:00",
        took_s=900.0,
        loads=(0.5, 2.0),
        struck=tuple(struck(200)),
        account=Account(accepted=1000, lost={"gap": 3}, unreported_max=20),
        orderly=((1010, Account(accepted=1000, lost={"gap": 3}, unreported_max=20)),),
        comparisons=7,
        rolled_back=50,
        memory=(role_memory("player", [life([50.0] * 40)], 40.0),),
        faults=faults,
    )


def test_the_table_ends_with_the_verdict_and_a_failure_with_the_line_that_repeats_it() -> None:
    assert table(report()).splitlines()[-1] == "PASSED: 200 kills in 15.0 minutes, every promise kept"
    failed = table(report("the run was not brought to its end")).splitlines()
    assert failed[-1] == "reproduce: python -m tests.soak.marathon --seed 1 --minutes 15"
    assert "FAILED: 200 kills in 15.0 minutes" in failed
    assert "players counted 1010; 1003 of these are accepted or declared lost" in table(report())


def test_the_document_says_whether_all_was_well() -> None:
    assert document(report())["passed"] is True
    assert document(report("no"))["passed"] is False


def test_the_newest_whole_line_of_every_journal_counts(tmp_path: Path) -> None:
    lines = ['{"env_steps": 1, "agent_steps": 2}', '{"env_steps": 5, "agent_steps": 10}', '{"en']
    (tmp_path / "0-11.jsonl").write_text("\n".join(lines))
    (tmp_path / "0-12.jsonl").write_text("")
    (tmp_path / "3-13.jsonl").write_text('{"env_steps": 0, "agent_steps": 0}\n')
    book = JournalBook(tmp_path)
    book.read()
    assert set(book.entries) == {Entry(0, 11, 5, 10), Entry(3, 13, 0, 0)}
    assert (book.agent_steps, book.env_steps_of(0), book.pids_of(3)) == (10, 5, frozenset({13}))
    assert not book.has_stepped(0, not_in=frozenset({11}))
    (tmp_path / "0-12.jsonl").write_text('{"env_steps": 2, "agent_steps": 4}\n')
    book.read()
    assert (book.agent_steps, book.env_steps_of(0)) == (14, 7)
    assert book.has_stepped(0, not_in=frozenset({11}))
