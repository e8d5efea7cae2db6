"""What the oracle knows of lessons: they rise one by one, and players step under the newest that they must be under.

The value of lesson n is n here, so parameters tell by themselves which is newer.
"""

from __future__ import annotations

from collections.abc import Mapping

from runtime.experience.columns import StepBlock
from runtime.experience.lessons import LessonPlan
from runtime.experience.parameters import ParameterValue
from runtime.messages import ResetRequest, StepGrant
from runtime.simulation.errors import InvariantError
from runtime.simulation.players import SimPlayer
from runtime.simulation.scenarios import Scenario

# (env_id, incarnation, reset id)
ResetKey = tuple[int, int, int]


class LessonWatch:
    """Parameters never fall, nor does a player miss any; what must begin with a reset does.

    numbers: lessons that the save held from which this run went on; now: newest that a message has carried.
    """

    def __init__(self, scenario: Scenario, numbers: Mapping[str, int]) -> None:
        self._plans: dict[str, LessonPlan] = {each.parameter: each for each in scenario.lessons}
        self._resamples = scenario.resampling_interval > 0
        self._is_sync = scenario.is_sync
        self.now: dict[str, int] = {name: numbers.get(name, 0) for name in self._plans}
        self._by_id: dict[int, Mapping[str, ParameterValue]] = {}
        self._newest_id = 0
        self._begun_id = 0
        self._ids: dict[ResetKey, int] = {}

    @property
    def resets_players(self) -> bool:
        """Whether anything but a loss may reset a player that was reset before."""
        return bool(self._plans) or self._resamples

    def told(self, message: ResetRequest | StepGrant) -> None:
        """The controller sends parameters."""
        number, values = message.parameters_id, message.parameters
        if isinstance(message, StepGrant) and not number:
            return
        if number < self._newest_id:
            raise InvariantError("LESSON", f"parameters {number} are sent after {self._newest_id}")
        if self._by_id.setdefault(number, values) != values:
            raise InvariantError("LESSON", f"parameters {number} are {self._by_id[number]}, and are {values}")
        if number > self._newest_id + 1 and self._is_sync:
            raise InvariantError("LESSON", f"parameters {number} are sent after {self._newest_id}")
        self._newest_id = number
        for name, plan in self._plans.items():
            value, before = self._number(values, name), self.now[name]
            if not before <= value < len(plan.lessons):
                raise InvariantError("LESSON", f"lesson {value} of {name} is sent after lesson {before}")
            self.now[name] = value

    def asked(self, message: ResetRequest) -> None:
        """The controller asks for a reset, for the first time or once more."""
        self.told(message)
        key, number = (message.env_id, message.incarnation), message.parameters_id
        self._ids[*key, message.reset_id] = number
        if not message.reset_id:
            return
        if number == self._ids[*key, message.reset_id - 1] and not self._resamples:
            raise InvariantError("ISOLATE", f"{key} is reset to parameters {number}, which it had")
        self._begun_id = number

    def saved(self, lessons: object) -> None:
        """A save begins with these lessons."""
        numbers = lessons.get("numbers") if isinstance(lessons, Mapping) else None
        known = numbers if isinstance(numbers, Mapping) else {}
        behind = [name for name, number in self.now.items() if known.get(name, -1) < number]
        if behind:
            raise InvariantError("RESUME", f"a save holds lessons {known}, players have {self.now}")

    def accepted(self, block: StepBlock) -> None:
        """The learner is given steps: all of them were taken since the newest reset of all players."""
        number = self._ids[block.env_id, block.incarnation, block.reset_id]
        if number < self._begun_id:
            text = f"steps under parameters {number} are accepted after a reset of all players to {self._begun_id}"
            raise InvariantError("LESSON", text)

    def stepped(
        self, player: SimPlayer, granted: Mapping[str, ParameterValue], told: Mapping[str, ParameterValue]
    ) -> None:
        """A player is about to step and is told this. granted: what its EnvWorker heard last with a grant."""
        if told and not player.scene.takes_parameters:
            raise InvariantError("LESSON", f"player {player.env_id} cannot be told parameters, and is: {dict(told)}")
        held = {**player.parameters, **told}
        for name, plan in self._plans.items():
            before, now = self._number(player.parameters, name), self._number(held, name)
            if now < before:
                raise InvariantError("LESSON", f"player {player.env_id} falls from lesson {before} of {name} to {now}")
            criteria = [plan.criterion(number) for number in range(before, now)]
            if any(each is not None and each.require_reset for each in criteria):
                raise InvariantError("LESSON", f"lesson {now} of {name} begins in the middle of episodes")
            if granted and player.scene.takes_parameters and now < self._number(granted, name):
                raise InvariantError("LESSON", f"player {player.env_id} steps in lesson {now} of {name}, not {granted}")

    @staticmethod
    def _number(values: Mapping[str, ParameterValue], name: str) -> int:
        value = values.get(name)
        if not isinstance(value, float):
            raise InvariantError("LESSON", f"{name} is missing in {dict(values)}")
        return int(value)
