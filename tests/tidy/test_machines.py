"""The page about the machines is fresh, and leaves out no phase and no message."""

import runpy
from collections.abc import Callable
from typing import cast

import pytest

from tests.support.machine_seats import CONTROLLER, HOLDER, MACHINES, SUPERVISOR, WORKER, tables
from tests.support.machine_tables import Machine, diagram
from tests.tidy.sources import ROOT

GENERATOR = ROOT / "docs" / "generate_machines.py"
PAGE = ROOT / "docs" / "machines.md"
RECEIVERS = {"EnvWorker": WORKER, "PolicyHolder": HOLDER, "TrainerController": CONTROLLER, "Supervisor": SUPERVISOR}
BEGINS_IT = {("EnvWorker", "StartWorker")}
"""What an actor is made from, before there is a machine."""


def received_by(actor: str) -> set[str]:
    """The messages whose docstrings say that this actor gets them."""
    module = runpy.run_path(str(ROOT / "docs" / "generate_messages.py"))
    entries = module["entries"]((ROOT / "runtime" / "messages.py").read_text(encoding="utf-8"))
    return {
        entry.name
        for entry in entries
        for receivers in entry.route.split(" -> ")[1:]
        if actor in {each.strip().removesuffix("s") for each in receivers.split(",")}
        and (actor, entry.name) not in BEGINS_IT
    }


def test_the_page_about_machines_is_fresh() -> None:
    page = cast("Callable[[], str]", runpy.run_path(str(GENERATOR))["page"])
    assert PAGE.is_file(), f"no {PAGE.name}: run python docs/generate_machines.py"
    assert PAGE.read_text(encoding="utf-8") == page(), f"{PAGE.name} is stale: run python docs/generate_machines.py"


@pytest.mark.parametrize("actor", RECEIVERS)
def test_every_message_that_an_actor_gets_is_in_its_table(actor: str) -> None:
    expected = received_by(actor)
    assert expected
    assert expected <= {type(message).__name__ for message in RECEIVERS[actor].messages.values()}


@pytest.mark.parametrize("machine", MACHINES, ids=lambda each: each.title)
def test_a_machine_is_in_the_phase_that_it_is_put_into(machine: Machine) -> None:
    assert {phase: begin().phase() for phase, begin in machine.phases.items()} == {
        each: each for each in machine.phases
    }


def test_every_phase_is_reached_and_every_message_is_taken_somewhere() -> None:
    for table in tables():
        machine = table.machine
        reached = {cell.after for (phase, _), cell in table.cells.items() if cell.after != phase}
        assert set(machine.phases) - reached <= {next(iter(machine.phases))}, machine.title
        taken = {name for (_, name), cell in table.cells.items() if cell.after}
        assert taken == set(machine.messages), machine.title
        assert not set(table.refused) & {type(message).__name__ for message in machine.messages.values()}


def test_only_last_phases_have_no_way_out() -> None:
    ends = {table.machine.title: diagram(table).count("--> [*]") for table in tables()}
    assert set(ends.values()) == {1}
