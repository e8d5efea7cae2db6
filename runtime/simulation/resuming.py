"""What must hold when a run has gone on from a save."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from runtime.decisions.controller_state import ControllerState
from runtime.decisions.ledger import Counters
from runtime.simulation.disk import Generation
from runtime.simulation.errors import InvariantError

if TYPE_CHECKING:
    from runtime.simulation.world import World


def counters_of(generation: Generation) -> Counters:
    """The totals that a save holds."""
    saved = generation.run_state
    lost = saved["lost"]
    assert isinstance(lost, dict)

    def number(name: str) -> int:
        value = saved[name]
        assert isinstance(value, int)
        return value

    return Counters(
        env_steps=number("env_steps"),
        agent_steps=number("agent_steps"),
        decisions=number("decisions"),
        lost=lost,
        unreported_max=number("unreported_max"),
    )


def lessons_of(generation: Generation) -> dict[str, int]:
    """The lesson of each parameter in a save."""
    saved = generation.run_state["lessons"]
    assert isinstance(saved, dict)
    return {str(name): int(number) for name, number in saved.get("numbers", {}).items()}


def check_restored(state: ControllerState, generation: Generation) -> None:
    """The controller that goes on holds what was saved. Raises InvariantError."""
    saved, expected, found = generation.run_state, counters_of(generation), state.counters
    if found != expected:
        raise InvariantError("RESUME", f"the ledger went on with {found}, saved was {expected}")
    restarts = {str(env_id): each.restarts for env_id, each in state.envs.items()}
    if restarts != saved["restarts"]:
        raise InvariantError("RESUME", f"restarts went on with {restarts}, saved were {saved['restarts']}")
    if dict(state.lessons.numbers) != lessons_of(generation):
        raise InvariantError("RESUME", f"lessons went on with {state.lessons.numbers}, saved were {saved['lessons']}")
    workers = {str(number): count for number, count in state.worker_restarts.items()}
    if (workers, state.holder_restarts) != (saved["worker_restarts"], saved["holder_restarts"]):
        raise InvariantError("RESUME", f"restarts of parts went on with {workers}, {state.holder_restarts}")


def check_incarnations(generation: Generation, first_incarnation: int) -> None:
    """No step that the save holds can come once more under the same key. Raises InvariantError."""
    for env_id, incarnation, _ in generation.learner.accepted:
        if incarnation >= first_incarnation:
            text = f"environment {env_id} goes on with {first_incarnation}, the save holds steps of {incarnation}"
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
