"""What must hold when a simulated run has ended."""

from __future__ import annotations

from runtime.decisions import effects as fx
from runtime.messages import Status
from runtime.simulation.errors import InvariantError
from runtime.simulation.oracle import LAG_MAX
from runtime.simulation.resuming import counters_of
from runtime.simulation.world import World


def check_end(world: World) -> None:
    """Every invariant that speaks of the whole. Raises InvariantError."""
    status = world.supervisor.status
    if world.is_supervisor_gone:
        _check_nothing_left(world)
        return
    if world.controller is None or not (world.oracle.told or world.supervisor.core.state.latest):
        # It was stopped, or lost, before its controller had said anything.
        if not (world.stop_asked or status.exit_code):
            raise InvariantError("EXIT", f"a run ended by itself before it began: {status.exit_reason}")
        return
    _check_exit(world, status)
    if _gave_up_workers(world) and not _is_slow(world):
        raise InvariantError("EXIT", "EnvWorkers that answer were given up at the end")
    if "did not end in time" in status.cause and not world.faults.dropped and not world.faults.counts.get("controller"):
        raise InvariantError("EXIT", "the run was asked to end, and its controller had to be left behind")
    if status.exit_code == 4 or world.controller.core.state.ending is None:
        return  # the controller was killed, or could not answer in time: the last save stands
    is_over = bool(world.oracle.told)
    world.oracle.ledger(world.controller.core.state.counters, is_over=is_over)
    if is_over:
        _check_totals(world)
        _check_restarts(world)
        _check_saved(world, status)
    lag, limit = world.learner.lag_max, 0 if world.scenario.is_sync else LAG_MAX
    if lag > limit:
        raise InvariantError("STALE", f"steps were accepted {lag} versions late; {limit} are allowed")


def _check_nothing_left(world: World) -> None:
    """The Supervisor has died: the last save stands, and nobody who could go on is left. The launcher ends with 4."""
    world.disk.newest()
    alive = [each.name for each in world.places if each.is_alive] + [
        each.end.name for each in world.seats if each.player.is_alive
    ]
    if alive:
        raise InvariantError("ORPHAN", f"the Supervisor is gone, and these are left: {', '.join(alive)}")


def _check_exit(world: World, status: Status) -> None:
    """The reason and the code are those of the first cause."""
    found, scenario = (status.exit_reason, status.exit_code), world.scenario
    assert world.controller is not None
    allowed = {("max_steps", 0)} if world.learner.steps >= scenario.max_steps else set()
    if scenario.stop_at and world.controller.core.state.counters.agent_steps >= scenario.stop_at:
        allowed.add(("stop_at", 0))
    if world.stop_asked:
        allowed.add(("interrupted", 130))
    if world.oracle.restarts.denied:
        allowed.add(("environment_failure", 3))
    if world.faults.dropped:
        allowed.add(("trainer_failure", 4))  # its last word was lost
    if world.disk.error:
        allowed = {(reason, code) for reason, code in allowed if code}
        allowed.add(("storage_failure", 5))
    if world.faults.counts.get("controller") or scenario.crash_kind == "controller":
        allowed.add(("trainer_failure", 4))
    if found not in allowed:
        raise InvariantError("EXIT", f"the run ended with {found}, expected one of {sorted(allowed)}: {status.cause}")


def _is_slow(world: World) -> bool:
    """True when players or parts may have been too slow for the end."""
    return world.faults.hides_parts or "hang" in world.faults.counts


def _gave_up_workers(world: World) -> bool:
    """True when the controller ended without waiting any longer for an EnvWorker."""
    return any("did not stop in time" in line for line in world.lines)


def is_exact(world: World) -> bool:
    """True when no process was lost, no message either, and neither a step under way nor an EnvWorker was given up."""
    gave_up = sum(each.engine.gave_up for each in world.engines if each.engine is not None)
    restarts = world.scenario.restart_envs_at and not world.scenario.is_sync
    gave_up += _gave_up_workers(world)
    return not (world.died or gave_up or restarts or world.faults.dropped or world.oracle.restarts.has_losses)


def _check_totals(world: World) -> None:
    """Counters agree with what the players counted: exactly, or within the bound on what dead processes did."""
    assert world.controller is not None
    counters, base = world.controller.core.state.counters, world.oracle.base
    counted = [each.player.journal[-1] for each in world.seats]
    known = counters.agent_steps - base.agent_steps + sum(counters.lost.values()) - sum(base.lost.values())
    bound = counters.unreported_max - base.unreported_max
    if sum(counted) < known:
        raise InvariantError("LEDGER", f"players counted {sum(counted)} agent steps, the ledger {known}")
    if sum(counted) > known + bound and not world.faults.dropped:
        raise InvariantError(
            "LEDGER", f"players counted {sum(counted)} agent steps, the ledger {known} and {bound} at most"
        )
    env_steps = sum(each.player.env_steps for each in world.seats)
    decisions = sum(each.player.decided[-1] for each in world.seats)
    found = (counters.env_steps - base.env_steps, counters.decisions - base.decisions)
    if found[0] > env_steps or found[1] > decisions:
        raise InvariantError(
            "ONCE", f"the ledger has {found} env steps and decisions, players {env_steps}, {decisions}"
        )
    if not is_exact(world):
        return
    if bound:
        raise InvariantError("LEDGER", f"nothing was lost, and {bound} agent steps are called unreported")
    is_whole = world.oracle.is_whole
    if world.scenario.is_sync and not is_whole:
        raise InvariantError("LEDGER", "nothing was lost, and a synchronous run dropped a block")
    if is_whole and (known, *found) != (sum(counted), env_steps, decisions):
        raise InvariantError(
            "ONCE", f"nothing was lost: {(known, *found)} are known, {(sum(counted), env_steps, decisions)}"
        )


def _check_restarts(world: World) -> None:
    """Restarts are counted as the Supervisor granted them, however often and in which order the news came.

    What it granted while the controller had its last words is left out.
    """
    assert world.controller is not None
    if world.faults.dropped:
        return
    state, granted = world.controller.core.state, world.supervisor.core.state
    before = _restarts_before(world)
    found = [
        (f"environment {env_id}", each.restarts - before.get(str(env_id), 0), granted.env_budgets[env_id].spent)
        for env_id, each in state.envs.items()
    ]
    found += [
        (
            str(role),
            state.worker_restarts.get(role.number, 0) - before.get(str(role), 0),
            world.oracle.restarts.failures.get(role.number, 0),
        )
        for role in granted.part_budgets
        if role.kind == "worker"
    ]
    started = world.oracle.restarts.started(str(fx.HOLDER))
    holders = state.holder_restarts - _holders_before(world)
    if holders > started:
        raise InvariantError("RESTART", f"{holders} restarts of the PolicyHolder are counted, {started} were granted")
    untold = _untold_restarts(world)
    for name, counted, spent in found:
        if counted > spent or (counted < spent and not untold):
            raise InvariantError("RESTART", f"{name}: {counted} restarts are counted, {spent} were granted")


def _restarts_before(world: World) -> dict[str, int]:
    if world.resumed is None:
        return {}
    envs, workers = world.resumed.run_state["restarts"], world.resumed.run_state["worker_restarts"]
    assert isinstance(envs, dict)
    assert isinstance(workers, dict)
    return {**envs, **{f"worker {number}": count for number, count in workers.items()}}


def _holders_before(world: World) -> int:
    count = 0 if world.resumed is None else world.resumed.run_state["holder_restarts"]
    assert isinstance(count, int)
    return count


def _untold_restarts(world: World) -> int:
    """News of losses that the controller has not read, or read after its end."""
    assert world.controller is not None
    dropped = world.controller.core.state.counters.dropped
    _, place = next(held for role, held in world.children.items() if role.kind == "controller")
    unread = sum(len(link.queue) for link in place.incoming if link.source is world.top) if place is not None else 0
    return unread + dropped.get("StartPlayer", 0) + dropped.get("WorkerFailed", 0)


def _check_saved(world: World, status: Status) -> None:
    """A run that ended in order has saved all it had, or has said why not."""
    assert world.controller is not None
    if not world.learner.behaviors:
        return
    said = sum("could not be saved" in line for line in world.lines)
    if world.resumed is None and not world.disk.spells <= said <= world.disk.spells + 1:
        raise InvariantError("CKPT", f"saves began to fail {world.disk.spells} times, and that was said {said} times")
    if status.exit_code == 5:
        return
    newest, counters = world.disk.newest(), world.controller.core.state.counters
    if newest is None or not world.oracle.saves:
        if world.disk.error:
            return
        raise InvariantError("CKPT", "a run ended in order without a save")
    saved = counters_of(newest)
    if (saved.agent_steps, saved.env_steps) != (counters.agent_steps, counters.env_steps):
        if world.disk.error and status.exit_code:
            return
        raise InvariantError("CKPT", f"the last save holds {saved}, the run ended with {counters}")
