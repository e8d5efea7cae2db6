"""The EnvWorker's table, enumerated: every message in every phase goes by a row, or is refused and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from runtime.decisions.effects import PlayerClosed, PlayerConnected, PlayerFailed, PlayerReplied, PlayerStepped
from runtime.decisions.env_worker import EnvWorkerCore
from runtime.decisions.env_worker_state import TRANSITIONS, Phase, Slot
from runtime.errors import ActorProtocolError
from runtime.experience.brains import EnvId
from runtime.messages import EnvGrant, ResetRequest
from tests.support.bench_worker import closed, connected, failed, replied, stepped
from tests.support.builders_messages import (
    WALKER,
    assignment,
    env_grant,
    reset_request,
    start_worker,
    step_grant,
    stop_request,
)

MESSAGES: dict[type, Callable[[], object]] = {
    PlayerConnected: connected,
    PlayerReplied: replied,
    PlayerStepped: stepped,
    PlayerFailed: failed,
    PlayerClosed: closed,
    ResetRequest: lambda: reset_request(reset_id=1),
    EnvGrant: lambda: step_grant(env_grant(until=3)),
}
CELLS = [(phase, kind) for phase in Phase for kind in MESSAGES]


def core_in(phase: Phase) -> EnvWorkerCore:
    """A worker of one environment in this phase, whose policy is missing; one that is closed was asked to stop."""
    core = EnvWorkerCore(start_worker((assignment(),)), pid=1)
    core.begin()
    slot = Slot(assignment=assignment(), phase=phase, reset_id=0, pending={WALKER: 1})
    stop = stop_request() if phase in {Phase.CLOSING, Phase.CLOSED} else None
    core.state = replace(core.state, slots={EnvId(0): slot}, stop=stop, is_finished=phase is Phase.CLOSED)
    return core


def name_of(value: object) -> str:
    return value.name if isinstance(value, Phase) else getattr(value, "__name__", "")


def test_the_table_speaks_of_nothing_but_these_messages() -> None:
    assert {kind for _, kind in TRANSITIONS} == set(MESSAGES)
    assert set(TRANSITIONS) <= set(CELLS)


@pytest.mark.parametrize(("phase", "kind"), [cell for cell in CELLS if cell in TRANSITIONS], ids=name_of)
def test_a_message_with_a_row_leads_to_the_phase_of_the_row(phase: Phase, kind: type) -> None:
    core = core_in(phase)
    core.handle(MESSAGES[kind](), 0.0)
    assert core.state.slots[EnvId(0)].phase is TRANSITIONS[phase, kind]


@pytest.mark.parametrize(("phase", "kind"), [cell for cell in CELLS if cell not in TRANSITIONS], ids=name_of)
def test_a_message_without_a_row_is_refused_and_changes_nothing(phase: Phase, kind: type) -> None:
    core = core_in(phase)
    before = core.state
    with pytest.raises(ActorProtocolError, match=rf"environment 0: {kind.__name__} while {phase.value}"):
        core.handle(MESSAGES[kind](), 0.0)
    assert core.state == before


@pytest.mark.parametrize("phase", Phase, ids=name_of)
def test_every_phase_can_be_left_or_is_an_end(phase: Phase) -> None:
    goals = {after for (before, _), after in TRANSITIONS.items() if before is phase}
    # A lost player is replaced by the Supervisor's order, an idle one steps by credit: neither is a row of the table.
    assert goals - {phase} or phase in {Phase.LOST, Phase.CLOSED, Phase.IDLE}
