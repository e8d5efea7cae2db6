"""`crowd`: walkers that come and go; a second behavior, `CrowdLate`, appears at env step 200.

Task. A walker starts at place 0 of a line from -3 to 3 with a gate at one end, seen by its sign. A decision moves it by
one place (it cannot leave the line) and costs 0.02; being at the gate gives 1 and ends the episode; after 12 decisions
it is interrupted. Best return of either behavior: 0.94 (3 decisions). `Crowd` decides with one branch of 3 (0 stay, 1
left, 2 right) and sees gate sign, place / 3 and the share of decisions left, as one vector of 3; `CrowdLate` decides
with one continuous action (above 1/3 right, below -1/3 left, else stay) and sees the sign, and the other two.

Who is there when. `agents` slots per behavior. A slot's walker enters under a new id after a pause of 1 to 5 steps;
one that arrives leaves for good or, as often, starts anew at once under the same id, so that its end and its next start
are in one message; one that was interrupted always starts anew. A quarter of the decisions take two steps: such a
walker is in no message until the outcome is there. Each behavior counts days of 40 steps from its first step and from
every reset: nobody begins in the last 12 of them, who is still there 5 steps before the end is sent away (done, not
interrupted), and the last 4 steps have no walkers. Three decisions always fit, so the best return stays what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from fakeunity.bounds import within
from fakeunity.parameters import Parameters
from fakeunity.rows import Actions, BehaviorSpec, Bools, Floats, Ints, ObservationSpec, Rows, joined, zero_actions
from fakeunity.scenes.chance import Chance, Keys, uniforms

LATE_FROM_ENV_STEP = 200
DAY_STEPS = 40
ENTRY_CLOSES_AT = 28
STREET_CLOSES_AT = 35
GATE_PLACE = 3
DECISIONS_MAX = 12
PAUSE_MAX_STEPS = 5
STEP_COST = np.float32(0.02)
SLOW_SHARE = 0.25
SLOTS_MAX = 1024

CROWD = BehaviorSpec("Crowd", (ObservationSpec("VectorSensor_size3", 3),), branches=(3,))
CROWD_LATE = BehaviorSpec(
    "CrowdLate", (ObservationSpec("VectorSensor_size1", 1), ObservationSpec("VectorSensor_size2", 2)), continuous=1
)


def branch_moves(actions: Actions) -> Ints:
    """-1, 0 or 1 of each row of the one branch."""
    moves: Ints = np.array([0, -1, 1], np.int64)[actions.discrete[:, 0]]
    return moves


def continuous_moves(actions: Actions) -> Ints:
    """-1, 0 or 1 of each row of the one continuous action."""
    moves: Ints = within(np.rint(actions.continuous[:, 0] * np.float32(1.5)), -1, 1).astype(np.int64)
    return moves


class Street:
    """The walkers of one behavior, one entry per slot in every array.

    A slot is absent (pausing), waiting for an action (no steps left) or under way (`_steps_left` > 0). Ids pack the
    life of the slot, the behavior's number and the slot, so that they depend on nobody else.
    """

    def __init__(self, spec: BehaviorSpec, slots: int, chance: Chance, moves: Callable[[Actions], Ints]) -> None:
        self.spec = spec
        self._moves = moves
        self._chance = chance
        self._slots: Ints = np.arange(slots, dtype=np.int64)
        self._clock = 0
        self._life: Ints = np.full(slots, -1, np.int64)
        self._episode: Ints = np.full(slots, -1, np.int64)
        self._keys: Keys = np.zeros(slots, np.uint64)
        self._present: Bools = np.zeros(slots, np.bool_)
        self._steps_left: Ints = np.zeros(slots, np.int64)
        self._pause_steps: Ints = np.zeros(slots, np.int64)
        self._place: Ints = np.zeros(slots, np.int64)
        self._gate: Ints = np.ones(slots, np.int64)
        self._decisions: Ints = np.zeros(slots, np.int64)

    def reset(self) -> Rows:
        """A new day: everybody is there, in a new episode; who was there keeps its id."""
        self._clock = 0
        self._life += ~self._present
        self._present[:] = True
        self._begin(self._present)
        return self._rows(self._slots, np.zeros(len(self._slots), np.float32))

    def step(self, actions: Actions) -> Rows:
        """One step; `actions` are those of the walkers that wait, in the order of their slots."""
        self._clock += 1
        hour = self._clock % DAY_STEPS
        self._move(actions)
        settled = self._present & ((self._steps_left == 0) | (hour == STREET_CLOSES_AT))
        self._steps_left[settled] = 0
        arrived = settled & (self._place * self._gate == GATE_PLACE)
        tired = settled & ~arrived & (self._decisions >= DECISIONS_MAX)
        ended = arrived | tired | (settled & (hour == STREET_CLOSES_AT))
        ends = self._rows(self._slots[ended], arrived[ended] - STEP_COST, done=True, interrupted=tired[ended])
        begins = self._turn_over(ended, tired, is_open=hour < ENTRY_CLOSES_AT)
        deciding = (settled & ~ended) | begins
        rewards = np.where(begins[deciding], np.float32(0), -STEP_COST)
        return joined(ends, self._rows(self._slots[deciding], rewards))

    def _move(self, actions: Actions) -> None:
        deciding = self._present & (self._steps_left == 0)
        moved = self._place[deciding] + self._moves(actions)
        self._place[deciding] = within(moved, -GATE_PLACE, GATE_PLACE)
        self._decisions[deciding] += 1
        slow = uniforms(self._keys[deciding], self._decisions[deciding], 1)[:, 0] < SLOW_SHARE
        self._steps_left[deciding] = 1 + slow
        self._steps_left[self._present] -= 1

    def _turn_over(self, ended: Bools, tired: Bools, *, is_open: bool) -> Bools:
        """Who begins an episode in this step, after the walkers in `ended` left or stayed."""
        drawn = uniforms(self._keys, DECISIONS_MAX + 1, 2)
        stays = ended & (tired | (drawn[:, 0] < 0.5)) & is_open
        leaves = ended & ~stays
        absent = ~self._present
        self._pause_steps[absent] -= int(is_open)
        enters = absent & (self._pause_steps <= 0) & is_open
        self._pause_steps[leaves] = 1 + (drawn[leaves, 1] * PAUSE_MAX_STEPS).astype(np.int64)
        self._present = (self._present & ~leaves) | enters
        self._life += enters
        self._begin(stays | enters)
        return stays | enters

    def _begin(self, who: Bools) -> None:
        self._episode += who
        self._keys[who] = self._chance.episodes(self._slots[who], self._episode[who])
        self._gate[who] = np.where(uniforms(self._keys[who], 0, 1)[:, 0] < 0.5, -1, 1)
        for array in (self._place, self._decisions, self._steps_left):
            array[who] = 0

    def _rows(self, slots: Ints, rewards: Floats, *, done: bool = False, interrupted: Bools | None = None) -> Rows:
        count = len(slots)
        ids = (self._life[slots] << 11) | (self._chance.behavior << 10) | slots
        seen = np.empty((count, 3), np.float32)
        seen[:, 0] = self._gate[slots]
        seen[:, 1] = self._place[slots] / GATE_PLACE
        seen[:, 2] = 1.0 - self._decisions[slots] / DECISIONS_MAX
        ends = np.cumsum([sensor.size for sensor in self.spec.observations])[:-1]
        return Rows(
            ids=ids,
            rewards=rewards.astype(np.float32),
            done=np.full(count, done),
            interrupted=np.zeros(count, np.bool_) if interrupted is None else interrupted,
            observations=tuple(np.split(seen, ends, axis=1)),
        )


class Crowd:
    """Both streets; the second one is built at once but seen from env step 200 on."""

    def __init__(self, agents: int, chance: Chance) -> None:
        self.parameters = Parameters()
        late = Chance(chance.handshake_seed, chance.url_seed, behavior=1)
        self._crowd = Street(CROWD, agents, chance, branch_moves)
        self._late = Street(CROWD_LATE, agents, late, continuous_moves)
        self._env_steps = 0

    @property
    def specs(self) -> tuple[BehaviorSpec, ...]:
        """Both behaviors."""
        return (CROWD, CROWD_LATE)

    def default_actions(self, spec: BehaviorSpec, rows: Rows) -> Actions:
        """Zeros: stay."""
        return zero_actions(spec, len(rows.waiting()))

    def reset(self) -> Mapping[str, Rows]:
        """A new day on each street that is known already; the env steps go on counting."""
        rows = {CROWD.name: self._crowd.reset()}
        if self._env_steps >= LATE_FROM_ENV_STEP:
            rows[CROWD_LATE.name] = self._late.reset()
        return rows

    def step(self, actions: Mapping[str, Actions]) -> Mapping[str, Rows]:
        """One step of each street."""
        self._env_steps += 1
        rows = {CROWD.name: self._crowd.step(actions[CROWD.name])}
        if self._env_steps == LATE_FROM_ENV_STEP:
            rows[CROWD_LATE.name] = self._late.reset()
        elif self._env_steps > LATE_FROM_ENV_STEP:
            rows[CROWD_LATE.name] = self._late.step(actions[CROWD_LATE.name])
        return rows
