"""Mutants of lessons: who is told of a new one, who is reset for it, and when."""

from __future__ import annotations

from tests.mutants.mutant import mutant

LESSONS = (
    mutant(
        "lesson_told_before_its_reset",
        "a lesson that begins with a reset is told with a grant while episodes go on",
        "collecting",
        "is_told = state.parameters_id > 0 and not state.is_reset_due",
        "is_told = state.parameters_id > 0",
    ),
    mutant(
        "lesson_not_told",
        "an EnvWorker does not pass new parameters on to a player that needs no reset for them",
        "stepping",
        "return {name: value for name, value in state.parameters.items() if slot.told.get(name) != value}",
        "return {}",
    ),
    mutant(
        "old_parameters_told",
        "an EnvWorker takes what the newest message says for the newest parameters",
        "stepping",
        "if message.parameters_id > state.parameters_id:",
        "if True:",
    ),
    mutant(
        "everybody_takes_parameters",
        "players that can only be given parameters at a reset are told them without one",
        "curricula",
        "return criterion.require_reset or not all(each.takes_parameters for each in there)",
        "return criterion.require_reset",
    ),
    mutant(
        "reset_needed_by_nobody",
        "a lesson that is to begin with a reset begins without one",
        "curricula",
        "return criterion.require_reset or not all(each.takes_parameters for each in there)",
        "return not all(each.takes_parameters for each in there)",
    ),
    mutant(
        "reset_while_stepping",
        "players are reset for a lesson while others take steps that were granted",
        "collecting",
        'if any(each.state == "stepping" for each in state.envs.values()):\n            return state, effects  # they',
        "if False:\n            return state, effects  # they",
    ),
    mutant(
        "reset_forgets_who_is_being_reset",
        "a player that is being reset when a lesson changes keeps the old parameters",
        "curricula",
        'if record.state not in {"ready", "resetting"} or record.given == given:',
        'if record.state != "ready" or record.given == given:',
    ),
    mutant(
        "reset_although_it_has_them",
        "a player that has the new parameters from its start is reset for them once more",
        "curricula",
        'if record.state not in {"ready", "resetting"} or record.given == given:',
        'if record.state not in {"ready", "resetting"}:',
    ),
    mutant(
        "same_reset_id",
        "a reset for a lesson has the number of the reset before",
        "curricula",
        'record = replace(record, state="resetting", reset_id=record.reset_id + 1,',
        'record = replace(record, state="resetting",',
    ),
    mutant(
        "reset_again_and_again",
        "a reset that was ordered stays due",
        "curricula",
        "return replace(state, envs=envs, is_reset_due=False), tuple(effects)",
        "return replace(state, envs=envs), tuple(effects)",
    ),
    mutant(
        "lessons_are_not_saved",
        "a save does not hold the lessons",
        "controller_end",
        '"lessons": to_json(state.lessons),',
        '"lessons": {"numbers": dict.fromkeys(state.lessons.numbers, 0)},',
    ),
    mutant(
        "parameters_keep_their_number",
        "new parameters go by the number of the old ones",
        "curricula",
        "state = replace(state, parameters_id=state.parameters_id + bool(moved))",
        "state = replace(state, parameters_id=state.parameters_id + 0)",
    ),
)
