"""Lessons and resampling: what players are given, and when all of them are reset with new parameters.

A lesson is looked at after blocks were accepted, between rounds. When one changes, every player that is there is reset
with the new parameters, open trajectories are cut, and the next round waits for these resets. Players that are being
started get the parameters in their first reset; in asynchronous collection, players first take the steps they were
granted. `resampling_interval` resets all players at each of its multiples in env steps, with samplers drawn from anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from runtime.decisions.controller_state import ControllerState, Ending
from runtime.decisions.effects import CutTrajectories, Report, Send, worker_role
from runtime.decisions.frozen import replace
from runtime.decisions.ledger import EnvRecord
from runtime.experience.lessons import LessonPlan, criteria, lesson_values, look, saved_numbers
from runtime.experience.parameters import ParameterValue, drawn_value, in_words
from runtime.messages import ResetRequest, WorkerReady

VALUES_SOURCE: Final = "environment_parameters or --sampler"

Effects = tuple[object, ...]
Decision = tuple[ControllerState, Effects]


def parameters_of(state: ControllerState) -> dict[str, ParameterValue]:
    """What a player is given at a reset now; with a resampling interval, samplers are drawn from here."""
    options = state.options
    values = {**options.parameters, **lesson_values(state.lessons, options.lessons)}
    if options.resampling_interval is None:
        return values
    return {name: drawn_value(value, reset=state.resampled) for name, value in values.items()}


def reset_request(state: ControllerState, record: EnvRecord) -> ResetRequest:
    """The order to reset an environment, with the reset id of its record."""
    return ResetRequest(
        run=state.options.run,
        env_id=record.env_id,
        incarnation=record.incarnation,
        reset_id=record.reset_id,
        parameters=parameters_of(state),
        train_mode=state.options.train_mode,
        parameters_id=state.parameters_id,
    )


def newest_given(state: ControllerState) -> tuple[int, int]:
    """What tells parameters that are given at a reset now from older ones: changes of lessons, and resamplings."""
    return state.parameters_id, state.resampled


def look_at_lessons(state: ControllerState) -> Decision:
    """The lessons after what was accepted; players are told of a new one with a grant, or reset where they must be.

    A resampling resets all of them.
    """
    options = state.options
    effects: Effects = ()
    if options.is_training and options.lessons:
        progress = {name: min(1.0, each.steps / each.max_steps) for name, each in state.progress.items()}
        lessons, moved = look(state.lessons, options.lessons, progress)
        needs_reset = any(_needs_reset(state, parameter, state.lessons.numbers[parameter]) for parameter in moved)
        state = replace(state, lessons=lessons, is_reset_due=state.is_reset_due or needs_reset)
        state = replace(state, parameters_id=state.parameters_id + bool(moved))
        effects = (*(_moved(state, name) for name in moved), *_unknown_once(state))
        state = replace(state, is_unknown_told=state.is_unknown_told or bool(unknown_behaviors(state)))
    interval = options.resampling_interval
    if interval is not None and state.counters.env_steps // interval > state.resampled:
        state = replace(state, resampled=state.counters.env_steps // interval, is_reset_due=True)
    return state, effects


def _needs_reset(state: ControllerState, parameter: str, number: int) -> bool:
    """Whether the end of that lesson resets players: it says so, or one that is there cannot be told otherwise."""
    (plan,) = (each for each in state.options.lessons if each.parameter == parameter)
    criterion = plan.criterion(number)
    assert criterion is not None
    there = (each for each in state.envs.values() if each.state in {"ready", "stepping", "resetting"})
    return criterion.require_reset or not all(each.takes_parameters for each in there)


def _moved(state: ControllerState, parameter: str) -> Report:
    (plan,) = (each for each in state.options.lessons if each.parameter == parameter)
    number, check = state.lessons.numbers[parameter], state.lessons.checks[parameter]
    criterion, lesson = plan.criterion(check.lesson), plan.lessons[number]
    assert criterion is not None
    text = (
        f"{parameter}: lesson {number} ({lesson.name}, {in_words(lesson.value)}) begins after "
        f"{state.counters.env_steps} env steps: {criterion.measure} {check.signal:.3f} of {criterion.behavior} "
        f"is above {check.threshold:g}"
    )
    return Report("note", text)


def shortened_lessons(state: ControllerState, saved: Mapping[str, object]) -> tuple[Report, ...]:
    """What is said of parameters that have fewer lessons now than when the run was saved, and begin with their last."""
    if state.options.first_lesson is not None:
        return ()
    numbers = saved_numbers(saved.get("lessons"))
    return tuple(
        Report("fault", _shortened(plan, numbers[plan.parameter], state.lessons.numbers[plan.parameter]))
        for plan in state.options.lessons
        if numbers.get(plan.parameter, 0) > state.lessons.numbers[plan.parameter]
    )


def _shortened(plan: LessonPlan, before: int, number: int) -> str:
    lesson = plan.lessons[number]
    return (
        f"{plan.source}: {plan.parameter} was saved in lesson {before}, and now its last is {number}: the run goes on "
        f"with lesson {number} ({lesson.name}, {in_words(lesson.value)})"
    )


def unknown_behaviors(state: ControllerState) -> dict[str, str]:
    """Behaviors that lessons wait for and no player has announced, each with where the lessons were written."""
    return {
        criterion.behavior: plan.source or plan.parameter
        for plan in state.options.lessons
        for criterion in criteria((plan,))
        if criterion.behavior not in state.progress
    }


def _unknown_once(state: ControllerState) -> Effects:
    unknown = unknown_behaviors(state)
    if state.is_unknown_told or not unknown or not state.counters.env_steps:
        return ()
    return tuple(Report("fault", _waiting(state, name, source)) for name, source in sorted(unknown.items()))


def _waiting(state: ControllerState, name: str, source: str) -> str:
    known = ", ".join(sorted(state.progress)) or "none"
    steps = state.counters.env_steps
    return (
        f"{source}: lessons wait for the behavior {name!r}, which no player has announced in {steps} env steps; "
        f"announced: {known}"
    )


def lessons_refusal(state: ControllerState) -> Ending | None:
    """The end of a run whose lessons wait for a behavior that does not come: they would never change."""
    limit = state.options.idle_steps * max(1, state.options.environments)
    unknown = unknown_behaviors(state) if state.options.is_training else {}
    if not unknown or state.counters.env_steps < limit:
        return None
    name, source = min(unknown.items())
    cause = f"{_waiting(state, name, source)}. Correct the name, or remove these lessons."
    return Ending(reason="trainer_failure", exit_code=2, cause=cause)


def parameter_refusal(state: ControllerState, message: WorkerReady) -> Ending | None:
    """The end of a run with values of a parameter that the player has not, as players of API-8 to API-10 tell.

    A player that told nothing of its parameters may have any.
    """
    told, options = message.reset_parameters, state.options
    given = [(f"{plan.source}: there are lessons of", plan.parameter) for plan in options.lessons]
    given += [(f"{VALUES_SOURCE}: there is a value of", name) for name in options.parameters]
    missing = [(what, name) for what, name in given if told is not None and name not in told]
    if told is None or not missing:
        return None
    what, name = missing[0]
    cause = (
        f"{what} {name!r}, which the player of environment {message.env_id} does not know; "
        f"it knows: {', '.join(sorted(told)) or 'none'}. Correct the name, or leave it out."
    )
    return Ending(reason="trainer_failure", exit_code=2, cause=cause)


def reset_players(state: ControllerState) -> Decision:
    """Reset every player that is there; one that was being reset is reset once more, with the new parameters.

    A player that was started meanwhile, and has them from its first reset, is left alone.
    """
    effects: list[object] = []
    envs, given = dict(state.envs), newest_given(state)
    for env_id in sorted(envs):
        record = envs[env_id]
        if record.state not in {"ready", "resetting"} or record.given == given:
            continue
        if record.state == "ready":
            # Here, in the order of environments, since the answers come in any order.
            effects.append(CutTrajectories(env_id))
        record = replace(record, state="resetting", reset_id=record.reset_id + 1, until=record.received, pending={})
        record = replace(record, given=given)
        envs[env_id] = record
        effects.append(Send(worker_role(record.worker), reset_request(state, record)))
    return replace(state, envs=envs, is_reset_due=False), tuple(effects)
