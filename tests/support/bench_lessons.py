"""A run with lessons: what a bench of the TrainerController earns, and what it then tells players."""

from __future__ import annotations

from runtime.decisions.effects import AcceptBlocks, BlocksAccepted
from runtime.experience.lessons import Criterion, Lesson, LessonPlan, Measure
from runtime.experience.parameters import ParameterValue
from runtime.messages import ResetRequest, StepGrant
from tests.support.bench_controller import ControllerBench
from tests.support.builders_messages import WALKER, block, brains_found, env_reset, sent, steps_taken, worker_ready


def plan(
    *values: ParameterValue, behavior: str = WALKER, measure: Measure = "reward", require_reset: bool = False
) -> LessonPlan:
    """Each lesson but the last ends when an episode of the behavior earns more than 0.5."""
    criterion = Criterion(
        behavior=behavior, measure=measure, threshold=0.5, signal_smoothing=False, require_reset=require_reset
    )
    lessons = [Lesson(name=f"L{number}", value=value, criterion=criterion) for number, value in enumerate(values)]
    return LessonPlan(parameter="height", lessons=tuple(lessons), source="lessons.json")


class Bench(ControllerBench):
    """The learner reports `earned`, once, as the returns of Walker."""

    earned: tuple[float, ...] = ()

    def _answer(self, effect: object) -> list[object]:
        if isinstance(effect, AcceptBlocks) and any(each.steps for each in effect.blocks):
            returns, self.earned = {WALKER: self.earned}, ()
            return [BlocksAccepted(self.progress, returns=returns)]
        return super()._answer(effect)


def bench_of(environments: int = 1, **options: object) -> Bench:
    bench = Bench(environments, **{"lessons": (plan(1.0, 2.0, 3.0),), "parameters": {"mass": 7.0}, **options})
    for each in range(environments):
        bench.reset(each)
    return bench


def telling(*, require_reset: bool = False, **options: object) -> Bench:
    """Two players that can be told of lessons without a reset, each under a worker of its own."""
    bench = Bench(2, **{"lessons": (plan(1.0, 2.0, 3.0, require_reset=require_reset),), **options})
    for each in range(2):
        bench.take(worker_ready(each, worker=each, takes_parameters=True), brains_found())
        bench.take(env_reset(each, pending={WALKER: 1}))
    return bench


def told_in(effects: tuple[object, ...]) -> list[tuple[int, ParameterValue | None]]:
    """(parameters id, height) of the grants."""
    return [(each.parameters_id, each.parameters.get("height")) for each in sent(effects, StepGrant)]


def resets_in(effects: tuple[object, ...]) -> list[tuple[int, int, ParameterValue]]:
    """(environment, reset id, height) of the resets that are asked for."""
    found = sent(effects, ResetRequest)
    return [(each.env_id, each.reset_id, each.parameters["height"]) for each in found]


def round_with(bench: Bench, *returns: float) -> tuple[object, ...]:
    """All environments deliver their round, in which episodes ended with these returns."""
    bench.earned = returns
    blocks = [
        block(
            each.env_id,
            first=each.received,
            steps=each.until - each.received,
            incarnation=each.incarnation,
            reset_id=each.reset_id,
            agent_steps=4,
        )
        for each in bench.state.envs.values()
        if each.state == "stepping"
    ]
    return bench.take(steps_taken(*blocks))
