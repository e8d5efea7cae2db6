"""`soccer`: one against one on a small pitch; what one team wins the other loses. Behaviors `Soccer?team=0` and `=1`.

The pitch has 6 columns and 4 rows; `agents` is the number of pitches, with one player of each team on each. Team 0
plays from left to right; team 1 sees a mirrored pitch, so that both play from left to right in their own eyes. Players
start in their own second column, in random rows; who has the ball is drawn. One branch of 5: 0 stays, 1 goes up, 2
down, 3 back, 4 forward. Who moves first is drawn at each step. A player whose way leads into the other stays where it
is, and the ball changes hands: who runs into its holder takes it, who runs with it into the other loses it. The holder
scores by going forward from the last column, in one of the two middle rows: 1 for its team, -1 for the other, and both
episodes end. After 60 steps they are interrupted.

A player sees its cell (one-hot of 24), the other's (one-hot of 24) and who has the ball (one-hot of 2: itself, the
other). Best return: 1, against a team that stands still; the two returns of a match add up to 0, whoever plays.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fakeunity.bounds import within
from fakeunity.parameters import Parameters
from fakeunity.rows import Actions, BehaviorSpec, Bools, Floats, Ints, ObservationSpec, Rows, joined, zero_actions
from fakeunity.scenes.chance import Chance, Keys, uniforms

COLUMNS, PITCH_ROWS = 6, 4
CELLS = COLUMNS * PITCH_ROWS
STEPS_MAX = 60
START_COLUMN = 1
MOVES = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]], np.int64)  # rows, columns as the player sees them
FORWARD = 4
GOAL_ROWS = (1, 2)
CELL_ONE_HOT = np.eye(CELLS, dtype=np.float32)
BALL_ONE_HOT = np.eye(2, dtype=np.float32)
SEEN = 2 * CELLS + 2
SPECS = tuple(
    BehaviorSpec(f"Soccer?team={team}", (ObservationSpec(f"VectorSensor_size{SEEN}", SEEN),), branches=(len(MOVES),))
    for team in range(2)
)


class Soccer:
    """One match per pitch.

    `row`, `column`: int64 (2, pitches), columns as the team sees them; `ball`: int64 (pitches,), the team that has it.
    """

    def __init__(self, agents: int, chance: Chance) -> None:
        self.parameters = Parameters()
        self._chance = chance
        self._pitches: Ints = np.arange(agents, dtype=np.int64)
        self._episode: Ints = np.full(agents, -1, np.int64)
        self._keys: Keys = np.zeros(agents, np.uint64)
        self._t: Ints = np.zeros(agents, np.int64)
        self.row: Ints = np.zeros((2, agents), np.int64)
        self.column: Ints = np.full((2, agents), START_COLUMN, np.int64)
        self.ball: Ints = np.zeros(agents, np.int64)

    @property
    def specs(self) -> tuple[BehaviorSpec, ...]:
        """Both teams."""
        return SPECS

    def default_actions(self, spec: BehaviorSpec, rows: Rows) -> Actions:
        """Everybody stays."""
        return zero_actions(spec, len(rows.waiting()))

    def reset(self) -> Mapping[str, Rows]:
        """New matches on all pitches."""
        self._kick_off(self._pitches)
        nothing = np.zeros(len(self._pitches), np.float32)
        return {spec.name: self._rows(team, self._pitches, nothing) for team, spec in enumerate(SPECS)}

    def step(self, actions: Mapping[str, Actions]) -> Mapping[str, Rows]:
        """One move of each player; a match that ended has its rows, and those of the next one."""
        self._t += 1
        chosen = [actions[spec.name].discrete[:, 0] for spec in SPECS]
        first = (uniforms(self._keys, self._t, 1)[:, 0] * 2).astype(np.int64)
        scorer = np.full(len(self._pitches), -1, np.int64)
        for turn in range(2):
            for team in range(2):
                self._move(team, chosen[team], (first == team) == (turn == 0), scorer)
        done = (scorer >= 0) | (self._t >= STEPS_MAX)
        over = self._pitches[done]
        rewards = [np.where(scorer < 0, 0, np.where(scorer == team, 1, -1)).astype(np.float32) for team in range(2)]
        limits = scorer[done] < 0
        ends = [self._rows(team, over, rewards[team][done]).ended(interrupted=limits) for team in range(2)]
        self._kick_off(over)
        # Only goals pay, and they end a match: whoever plays on has earned nothing in this step.
        nothing = np.zeros(len(self._pitches), np.float32)
        starts = [self._rows(team, self._pitches, nothing) for team in range(2)]
        return {spec.name: joined(ends[team], starts[team]) for team, spec in enumerate(SPECS)}

    def _move(self, team: int, chosen: Ints, turns: Bools, scorer: Ints) -> None:
        """Moves the players of `team` on the pitches in `turns` where nobody has scored; notes those who score."""
        plays = turns & (scorer < 0)
        row, column, other = self.row[team], self.column[team], 1 - team
        has_ball = self.ball == team
        in_front = (column == COLUMNS - 1) & np.isin(row, GOAL_ROWS)
        scorer[plays & has_ball & in_front & (chosen == FORWARD)] = team
        to_row = within(row + MOVES[chosen, 0], 0, PITCH_ROWS - 1)
        to_column = within(column + MOVES[chosen, 1], 0, COLUMNS - 1)
        # The other's columns count from its own side.
        is_taken = (to_row == self.row[other]) & (to_column == COLUMNS - 1 - self.column[other])
        moves = plays & ~is_taken
        self.row[team] = np.where(moves, to_row, row)
        self.column[team] = np.where(moves, to_column, column)
        self.ball = np.where(plays & is_taken, np.where(has_ball, other, team), self.ball)

    def _kick_off(self, who: Ints) -> None:
        self._episode[who] += 1
        self._keys[who] = self._chance.episodes(who, self._episode[who])
        self._t[who] = 0
        drawn = uniforms(self._keys[who], 0, 3)
        self.row[:, who] = (drawn[:, :2] * PITCH_ROWS).astype(np.int64).T
        self.column[:, who] = START_COLUMN
        self.ball[who] = (drawn[:, 2] * 2).astype(np.int64)

    def _rows(self, team: int, pitches: Ints, rewards: Floats) -> Rows:
        """Rows of one team's players on these pitches, none of them done."""
        own = self.row[team] * COLUMNS + self.column[team]
        theirs = self.row[1 - team] * COLUMNS + (COLUMNS - 1 - self.column[1 - team])
        parts = (CELL_ONE_HOT[own], CELL_ONE_HOT[theirs], BALL_ONE_HOT[(self.ball != team).astype(np.int64)])
        none = np.zeros(len(pitches), np.bool_)
        seen = np.concatenate(parts, axis=1)[pitches]
        return Rows(pitches * 2 + team, rewards, none, none, (seen,))
