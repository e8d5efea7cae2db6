"""`teacher`: two brains with one task; the trainer plays `Student`, the player itself plays `Teacher`, perfectly.

At every step an agent is shown one of 4 signs, drawn anew, and should press the key that belongs to it: 2, 0, 3, 1 for
the signs 0 to 3. The right key gives 0.1; the episode is interrupted after 10 steps. One branch of 4. It sees the sign
(one-hot of 4) and the key it pressed in the step before (one-hot of 4, all 0 at the start of an episode). Best return
of either behavior: 1, which the teacher always gets; pressing at random earns 0.25.

How to learn from the teacher: in API-8 to API-10 its brain is announced with is_training false, actions for it are
refused, and its rows hold the actions it took (stored_vector_actions) and the text "True,False": record, do not forget.
From 1.0.0 on there are no such rows: what the teacher did is in its next observation, and actions that are sent for it
change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fakeunity.parameters import Parameters
from fakeunity.rows import Actions, BehaviorSpec, Bools, Floats, Ints, ObservationSpec, Rows
from fakeunity.scenes.chance import Chance, uniforms
from fakeunity.scenes.steady import SteadyWorld

SIGNS = 4
NO_KEY = SIGNS
KEY_OF_SIGN = np.array([2, 0, 3, 1], np.int64)
RECORD_AND_KEEP = "True,False"
ONE_HOT = np.eye(SIGNS, dtype=np.float32)
KEY_ONE_HOT = np.eye(SIGNS + 1, SIGNS, dtype=np.float32)  # NO_KEY is a row of zeros
SENSORS = (ObservationSpec(f"VectorSensor_size{2 * SIGNS}", 2 * SIGNS),)


class Class(SteadyWorld):
    """Agents in front of signs. `sign` and `key` (the one pressed last), int64 (agents,)."""

    spec = BehaviorSpec("Student", SENSORS, branches=(SIGNS,))
    steps_max = 10

    def __init__(self, agents: int, chance: Chance) -> None:
        super().__init__(agents, chance)
        self.sign: Ints = np.zeros(agents, np.int64)
        self.key: Ints = np.full(agents, NO_KEY, np.int64)

    def begin(self, who: Ints) -> None:
        """The first sign, no key pressed."""
        self._draw(who)
        self.key[who] = NO_KEY

    def advance(self, actions: Actions) -> tuple[Floats, Bools]:
        """Pays for the key pressed, then shows the next sign."""
        self.key = actions.discrete[:, 0].copy()
        rewards = np.float32(0.1) * (self.key == KEY_OF_SIGN[self.sign])
        self._draw(np.arange(self.agents, dtype=np.int64))
        return rewards.astype(np.float32), np.zeros(self.agents, np.bool_)

    def observe(self) -> tuple[Floats, ...]:
        """Sign and last key."""
        return (np.concatenate((ONE_HOT[self.sign], KEY_ONE_HOT[self.key]), axis=1),)

    def _draw(self, who: Ints) -> None:
        self.sign[who] = (uniforms(self.keys[who], self.t[who], 1)[:, 0] * SIGNS).astype(np.int64)


class Experts(Class):
    """The same task for those who know."""

    spec = BehaviorSpec("Teacher", SENSORS, branches=(SIGNS,), is_training=False)

    def default_actions(self, spec: BehaviorSpec, rows: Rows) -> Actions:
        """The right keys."""
        return Actions(np.zeros((self.agents, 0), np.float32), KEY_OF_SIGN[self.sign][:, None])

    def texts(self) -> tuple[str, ...]:
        """That what they do is worth recording."""
        return (RECORD_AND_KEEP,) * self.agents


class Teacher:
    """Students and teachers, as many of each, in one world; they share nothing."""

    def __init__(self, agents: int, chance: Chance) -> None:
        self.parameters = Parameters()
        teachers = Chance(chance.handshake_seed, chance.url_seed, behavior=1)
        self._classes: tuple[Class, ...] = (Class(agents, chance), Experts(agents, teachers))

    @property
    def specs(self) -> tuple[BehaviorSpec, ...]:
        """Both behaviors."""
        return tuple(each.spec for each in self._classes)

    def default_actions(self, spec: BehaviorSpec, rows: Rows) -> Actions:
        """Zeros for students, what they do for teachers."""
        return next(each for each in self._classes if each.spec is spec).default_actions(spec, rows)

    def reset(self) -> Mapping[str, Rows]:
        """Everybody starts anew."""
        return {name: rows for each in self._classes for name, rows in each.reset().items()}

    def step(self, actions: Mapping[str, Actions]) -> Mapping[str, Rows]:
        """One step of everybody."""
        return {name: rows for each in self._classes for name, rows in each.step(actions).items()}
