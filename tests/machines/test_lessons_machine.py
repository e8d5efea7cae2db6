"""The TrainerController with lessons through any history: nobody steps in an old lesson, no reset is forgotten."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from runtime.decisions import effects as fx
from runtime.decisions.controller import ControllerCore
from runtime.decisions.controller_state import ControllerPhase
from runtime.experience.brains import EnvId
from runtime.experience.lessons import Criterion, Lesson, LessonPlan
from runtime.experience.parameters import ParameterValue
from runtime.messages import ResetRequest, StepGrant
from tests.machines.test_controller_machine import ENVS, ControllerMachine, envs, shifts
from tests.support.builders_messages import WALKER, block, env_reset

LESSONS = 30


def plan() -> LessonPlan:
    criterion = Criterion(behavior=WALKER, threshold=0.5, signal_smoothing=False)
    lessons = [Lesson(name=f"L{number}", value=float(number), criterion=criterion) for number in range(LESSONS)]
    return LessonPlan(parameter="height", lessons=tuple(lessons))


class LessonsMachine(ControllerMachine):
    """Every second acceptance ends an episode that earns 1; `heard` is what each player was given last."""

    told_id = 0

    def __init__(self) -> None:
        super().__init__()
        self.core = ControllerCore(replace(self.core.state.options, lessons=(plan(),)))
        self.wanted: dict[int, tuple[int, ParameterValue]] = {}
        self.reset_ids: dict[int, int] = defaultdict(int)
        self.heard: dict[int, ParameterValue] = {}
        self.ended = 0
        self.perform(self.core.begin())

    def perform(self, effects: tuple[object, ...]) -> list[object]:
        answers: list[object] = []
        for effect in effects:
            new = super().perform((effect,))
            if isinstance(effect, fx.AcceptBlocks) and any(each.steps for each in effect.blocks):
                self.ended += 1
                returns = {WALKER: (1.0,)} if self.ended % 2 == 0 else {}
                new = [replace(each, returns=returns) for each in new if isinstance(each, fx.BlocksAccepted)]
            elif isinstance(effect, fx.Send) and isinstance(effect.message, ResetRequest):
                self._ask(effect.message)
            answers += new
        return answers

    def _ask(self, request: ResetRequest) -> None:
        env_id = int(request.env_id)
        assert self.core.state.ending is None, "a reset was asked for while the run ended"
        self.wanted[env_id] = (request.reset_id, request.parameters["height"])
        env = self.envs[env_id]
        assert env.taken == env.until or request.reset_id == 0 or not env.is_reset, "a reset cut a grant short"
        env.is_reset, env.until = False, env.taken

    @rule(env_id=envs, shift=shifts)
    def an_environment_is_reset(self, env_id: int, shift: int) -> None:
        env = self.envs[env_id]
        if shift:
            super().an_environment_is_reset(env_id, shift)
        elif env.is_up and not env.is_reset and env_id in self.wanted:
            self.reset_ids[env_id], self.heard[env_id] = self.wanted.pop(env_id)
            env.is_reset = True
            self.take(env_reset(env_id, incarnation=env.incarnation, reset_id=self.reset_ids[env_id]))

    @rule(env_id=envs, agents=st.integers(0, 3), steps=st.integers(1, 3))
    def an_environment_takes_steps(self, env_id: int, agents: int, steps: int) -> None:
        env = self.envs[env_id]
        steps = min(steps, env.until - env.taken)
        if not env.is_up or not env.is_reset or steps < 1:
            return
        each = block(
            env_id,
            first=env.taken,
            steps=steps,
            agent_steps=agents * steps,
            incarnation=env.incarnation,
            reset_id=self.reset_ids[env_id],
            version=max(0, self.published),
            pending={WALKER: agents},
        )
        env.taken += steps
        self.history.append(each)
        self.deliver(each)

    @rule(times=st.integers(1, 4))
    def all_goes_well(self, times: int) -> None:
        for _ in range(times):
            for env_id in ENVS:
                self.an_environment_is_reset(env_id, 0)
                self.an_environment_takes_steps(env_id, agents=1, steps=4)
            if self.is_updating:
                self.an_update_has_ended()

    @invariant()
    def nobody_steps_in_an_old_lesson(self) -> None:
        state = self.core.state
        if state.ending is not None or state.is_reset_due:
            return
        now = plan().lessons[state.lessons.numbers["height"]].value
        for env_id, env in self.envs.items():
            if env.is_up and state.envs[EnvId(env_id)].state in {"ready", "stepping"}:
                assert self.heard[env_id] == now

    @invariant()
    def a_reset_that_is_due_is_asked_for_once_nobody_steps(self) -> None:
        state = self.core.state
        if state.is_reset_due and state.ending is None and not state.updating:
            assert any(each.state == "stepping" for each in state.envs.values()) or state.accepting

    @invariant()
    def a_run_that_can_go_on_does(self) -> None:
        state = self.core.state
        if any(each.state == "resetting" and each.reset_id > 0 for each in state.envs.values()):
            assert state.phase is not ControllerPhase.COLLECTING or not self.is_sync or state.ending is not None
            return
        super().a_run_that_can_go_on_does()


class ToldLessonsMachine(LessonsMachine):
    """Players that can be told of a lesson with a grant: nobody is reset twice, and whoever steps knows the lesson."""

    takes_parameters = True

    def grant(self, message: StepGrant) -> None:
        super().grant(message)
        assert message.parameters_id >= self.told_id, "parameters went back"
        self.told_id = message.parameters_id
        for each in message.grants:
            env = self.envs[each.env_id]
            if message.parameters and env.incarnation == each.incarnation and env.is_up:
                self.heard[int(each.env_id)] = message.parameters["height"]

    def _ask(self, request: ResetRequest) -> None:
        assert request.reset_id == 0, "a player that can be told was reset for a lesson"
        super()._ask(request)

    @invariant()
    def nobody_steps_in_an_old_lesson(self) -> None:
        """Who stands still is told with its next grant; in asynchronous collection so is who has steps left."""
        state = self.core.state
        if state.ending is not None or state.accepting or state.phase is not ControllerPhase.COLLECTING:
            return
        now = plan().lessons[state.lessons.numbers["height"]].value
        for env_id, env in self.envs.items():
            if self.is_sync and env.is_up and state.envs[EnvId(env_id)].state == "stepping":
                assert self.heard[env_id] == now


class FreeToldLessonsMachine(ToldLessonsMachine):
    """The same in asynchronous collection."""

    is_sync = False


class FreeLessonsMachine(LessonsMachine):
    """The same in asynchronous collection."""

    is_sync = False


TestLessonsMachine = LessonsMachine.TestCase
TestFreeLessonsMachine = FreeLessonsMachine.TestCase
TestToldLessonsMachine = ToldLessonsMachine.TestCase
TestFreeToldLessonsMachine = FreeToldLessonsMachine.TestCase
