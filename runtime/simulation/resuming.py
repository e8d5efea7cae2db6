"""What must hold when a run has gone on from a save."""

from __future__ import annotations

from collections.abc import Mapping

from runtime.simulation.errors import InvariantError
from runtime.simulation.world import World, counters_of


def check_restored(world: World) -> None:
    """The controller that goes on holds what was saved. Called before anything happens. Raises InvariantError."""
    assert world.resumed is not None
    assert world.controller is not None
    state, saved = world.controller.core.state, world.resumed.run_state
    expected = counters_of(world.resumed)
    found = state.counters
    if (found.env_steps, found.agent_steps, found.decisions, dict(found.lost), found.unreported_max) != (
        expected.env_steps,
        expected.agent_steps,
        expected.decisions,
        dict(expected.lost),
        expected.unreported_max,
    ):
        raise InvariantError("RESUME", f"the ledger went on with {found}, saved was {expected}")
    restarts = {str(env_id): each.restarts for env_id, each in state.envs.items()}
    if restarts != saved["restarts"]:
        raise InvariantError("RESUME", f"restarts went on with {restarts}, saved were {saved['restarts']}")
    workers = {str(number): count for number, count in state.worker_restarts.items()}
    if (workers, state.holder_restarts) != (saved["worker_restarts"], saved["holder_restarts"]):
        raise InvariantError("RESUME", f"restarts of parts went on with {workers}, {state.holder_restarts}")
    _check_incarnations(world)


def _check_incarnations(world: World) -> None:
    """No step that the save holds can come once more under the same key."""
    for env_id, incarnation, _ in world.learner.accepted:
        if incarnation >= world.first_incarnation:
            text = f"environment {env_id} starts with {world.first_incarnation}, the save holds steps of {incarnation}"
            raise InvariantError("ID", text)


def check_resumed(world: World) -> None:
    """The end of a run that went on: versions and steps rose from where they were saved."""
    assert world.resumed is not None
    before: Mapping[str, object] = world.resumed.run_state
    at = world.scenario.restart_envs_at
    agent_steps = before["agent_steps"]
    if at and isinstance(agent_steps, int) and agent_steps >= at and world.oracle.restarts.plans:
        raise InvariantError("RESUME", "players were restarted as planned before the save, and once more after it")
    for name, saved in world.resumed.learner.behaviors.items():
        now = world.learner.behaviors[name]
        if now.version < saved.version or now.steps < saved.steps:
            raise InvariantError("RESUME", f"{name} went on from version {saved.version} to {now.version}")
