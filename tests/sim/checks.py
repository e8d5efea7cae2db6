"""What must hold when a simulated run has ended, and the line that replays one that failed."""

from __future__ import annotations

from runtime.messages import Status
from tests.sim.scenarios import Scenario
from tests.sim.world import SimRun

LAG_MAX = 2


def simulate(scenario: Scenario, test: str) -> SimRun:
    """The run at its end, checked. A failure shows the last events and how to replay it."""
    run = SimRun(scenario)
    try:
        run.run()
        if run.has_begun:
            check_ledger(run)
            check_versions(run)
            check_restarts(run)
    except Exception as error:
        line = f"reproduce: pytest tests/sim/{test} --sim-seed={scenario.seed}"
        told = "\n".join((*run.scheduler.trace, *run.lines[-5:], f"{scenario}", line))
        msg = f"{type(error).__name__}: {error}\n{told}"
        raise AssertionError(msg) from error
    return run


def check_ledger(run: SimRun) -> None:
    """Counters agree with what the players counted: exactly, or within the bound on what dead processes did."""
    assert run.controller is not None
    counters, counts = run.controller.core.state.counters, run.counts
    known = counters.agent_steps + sum(counters.lost.values())
    assert known <= counts.agent_steps <= known + counters.unreported_max, (counters, counts)
    assert counters.env_steps <= counts.env_steps
    assert counters.decisions <= counts.decisions
    assert len(run.learner.accepted) == counters.env_steps
    # A block without an outcome loses no agent step when it is dropped, but the actions in it.
    is_whole = run.learner.accepted.issuperset(run.controller.delivered)
    if is_whole:
        assert run.learner.steps == counters.agent_steps, "the learner and the controller count differently"
    if run.is_exact:
        assert counters.unreported_max == 0, counters
        assert is_whole or not run.scenario.is_sync, "a synchronous run lost a block"
    if run.is_exact and is_whole:
        found = (counters.env_steps, counters.agent_steps, counters.decisions)
        assert found == (counts.env_steps, counts.agent_steps, counts.decisions)


def check_versions(run: SimRun) -> None:
    """No step is older than the mode allows when it is accepted."""
    lag, limit = run.learner.lag_max, 0 if run.scenario.is_sync else LAG_MAX
    assert lag <= limit, f"steps were accepted {lag} versions late"


def check_restarts(run: SimRun) -> None:
    """Restarts are counted as the Supervisor granted them, however often and in which order the news came.

    What it granted while the controller had its last words is left out.
    """
    assert run.controller is not None
    state, granted = run.controller.core.state, run.supervisor.core.state
    envs = {env_id: (each.restarts, granted.env_budgets[env_id].spent) for env_id, each in state.envs.items()}
    workers = {
        role: (state.worker_restarts.get(role.number, 0), budget.spent)
        for role, budget in granted.part_budgets.items()
        if role.kind == "worker"
    }
    found = [*envs.items(), *workers.items()]
    assert all(counted <= spent for _, (counted, spent) in found), found
    if not run.untold_restarts:
        assert all(counted == spent for _, (counted, spent) in found), found


def check_completed(run: SimRun) -> Status:
    """The run took all its steps, and its last act was a save."""
    status = run.supervisor.status
    assert (status.exit_reason, status.exit_code) == ("max_steps", 0), status.cause
    assert run.learner.steps >= run.scenario.sizes.max_steps
    assert run.controller is not None
    saved = run.controller.saves[-1]
    counters = run.controller.core.state.counters
    assert (saved["env_steps"], saved["agent_steps"]) == (counters.env_steps, counters.agent_steps)
    return status
