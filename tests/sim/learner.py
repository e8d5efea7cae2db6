"""A simulated learner: counts, pairs every row with its action, and folds what it accepted into its weights."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

from runtime.experience.brains import BrainParameters
from runtime.experience.columns import BrainColumns, RowKind, StepBlock
from runtime.learner import BrainProgress, PolicyRelease
from tests.sim.player import reward_of

Observation = tuple[int, ...]
TrajectoryKey = tuple[str, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much a behavior is to learn, in agent steps."""

    buffer_size: int = 16
    max_steps: int = 80


@dataclass(slots=True)
class _Behavior:
    name: str
    sizes: Sizes
    steps: int = 0
    buffered: int = 0
    version: int = 0
    episodes: int = 0
    weights: int = 0
    fold: int = 0
    wires: set[str] = field(default_factory=set)

    def progress(self) -> BrainProgress:
        sizes = self.sizes
        return BrainProgress(
            behavior=self.name,
            steps=self.steps,
            max_steps=sizes.max_steps,
            buffered=self.buffered,
            buffer_size=sizes.buffer_size,
            is_ready_update=self.steps < sizes.max_steps and self.buffered >= sizes.buffer_size,
            version=self.version,
            episodes=self.episodes,
            mean_reward=None,
            mean_episode_length=None,
        )

    def release(self) -> PolicyRelease:
        body = f"{self.name} {self.version} {self.weights}".encode()
        return PolicyRelease(behavior=self.name, version=self.version, body=body)


@dataclass(slots=True)
class SimLearner:
    """The learner's port in miniature. Assertions in `accept` are the oracle of what may be accepted.

    accepted: (env_id, incarnation, env step) of every step taken. batches: what each update was made from, by behavior
    and in order: (env_id, incarnation, first step, steps, content) of the blocks since the last one.
    """

    sizes: Sizes
    accepted: set[tuple[int, int, int]] = field(default_factory=set)
    batches: list[tuple[str, tuple[tuple[int, ...], ...]]] = field(default_factory=list)
    resets: dict[tuple[int, int], int] = field(default_factory=dict)
    lag_max: int = 0
    _behaviors: dict[str, _Behavior] = field(default_factory=dict)
    _incarnations: dict[int, int] = field(default_factory=dict)
    _next_step: dict[int, int] = field(default_factory=dict)
    _acted_with: dict[tuple[int, str], int] = field(default_factory=dict)
    _open: dict[TrajectoryKey, tuple[Observation, int | None]] = field(default_factory=dict)
    _since: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """Agent steps accepted, over all behaviors."""
        return sum(each.steps for each in self._behaviors.values())

    @property
    def weights(self) -> dict[str, int]:
        """The weights of each behavior."""
        return {name: each.weights for name, each in sorted(self._behaviors.items())}

    def progress(self) -> dict[str, BrainProgress]:
        """As `Learner.progress`."""
        return {name: each.progress() for name, each in sorted(self._behaviors.items())}

    def add_brain(self, brain: BrainParameters) -> PolicyRelease | None:
        """As `Learner.add_brain`."""
        name = brain.behavior_name
        known = self._behaviors.get(name)
        if known is None:
            known = self._behaviors[name] = _Behavior(name, self.sizes)
            known.wires.add(brain.brain_name)
            return known.release()
        known.wires.add(brain.brain_name)
        return None

    def accept(self, block: StepBlock) -> None:
        """As `Learner.accept`; asserts that every step comes once, in order, under versions that never fall."""
        self._check_order(block)
        self._check_versions(block)
        content = 0
        for wire, columns in sorted(block.brains.items()):
            behavior = self._behaviors[wire.partition("?")[0]]
            assert wire in behavior.wires, f"rows of {wire!r} came before the brain was added"
            answered = self._pair(block, wire, columns)
            behavior.steps += answered
            behavior.buffered += answered
            content = zlib.crc32(_bytes_of(columns), zlib.crc32(wire.encode(), content))
        if not block.steps:
            self.resets[block.env_id, block.incarnation] = content
            return
        key = (block.env_id, block.incarnation, block.first_step, block.steps, content)
        for name, each in self._behaviors.items():
            each.fold = zlib.crc32(repr(key).encode(), each.fold)
            self._since.setdefault(name, []).append(key)

    def cut(self, env_id: int | None) -> None:
        """As `Learner.cut`."""
        for key in [each for each in self._open if env_id is None or each[1] == env_id]:
            del self._open[key]

    def begin_update(self, name: str) -> Callable[[], PolicyRelease]:
        """The function that finishes the update."""
        behavior = self._behaviors[name]
        assert behavior.buffered >= behavior.sizes.buffer_size, "an update of a buffer that is not full"
        self.batches.append((name, tuple(self._since.pop(name, ()))))
        behavior.buffered = 0
        taken = behavior.fold

        def finish() -> PolicyRelease:
            behavior.version += 1
            behavior.weights = zlib.crc32(repr((behavior.version, taken)).encode(), behavior.weights)
            return behavior.release()

        return finish

    def _check_order(self, block: StepBlock) -> None:
        env, incarnation = int(block.env_id), int(block.incarnation)
        known = self._incarnations.get(env, -1)
        assert incarnation >= known, f"environment {env}: a block of incarnation {incarnation} after one of {known}"
        if incarnation > known:
            assert not [key for key in self._open if key[1] == env], f"open trajectories outlived incarnation {known}"
            self._incarnations[env], self._next_step[env] = incarnation, 0
        assert block.first_step >= self._next_step[env], f"environment {env}: steps came twice or out of order"
        if block.first_step > self._next_step[env]:
            left = [key for key in self._open if key[1] == env]
            assert not left, f"environment {env}: trajectories go on over steps that are missing"
        if not block.steps:
            self.cut(env)
        for step in range(block.first_step, block.first_step + block.steps):
            assert (env, incarnation, step) not in self.accepted
            self.accepted.add((env, incarnation, step))
        self._next_step[env] = block.first_step + block.steps

    def _check_versions(self, block: StepBlock) -> None:
        for name, version in block.versions.items():
            newest = self._behaviors[name].version
            assert version <= newest, f"{name} acted with version {version} before it was published"
            self.lag_max = max(self.lag_max, newest - version)
            key = (block.env_id, f"{name} {block.incarnation}")
            assert version >= self._acted_with.get(key, 0), f"environment {block.env_id}: the version of {name} fell"
            self._acted_with[key] = version

    def _pair(self, block: StepBlock, wire: str, columns: BrainColumns) -> int:
        """Agent steps in these columns; asserts that rewards and observations follow from what came before."""
        events = [
            *((step, 0, index) for index, step in enumerate(columns.action_steps.tolist())),
            *((step, 1, index) for index, step in enumerate(columns.row_steps.tolist())),
        ]
        actions, rows = columns.action_agents.tolist(), columns.row_agents.tolist()
        observations, kinds = columns.observations[0].tolist(), columns.row_kinds.tolist()
        rewards, choices, answered = columns.rewards.tolist(), columns.discrete[:, 0].tolist(), 0
        for _, is_row, index in sorted(events):
            agent = rows[index] if is_row else actions[index]
            key = (wire, int(block.env_id), int(block.incarnation), agent)
            held = self._open.get(key)
            if not is_row:
                if held is not None:
                    self._open[key] = (held[0], choices[index])
                continue
            seen = tuple(int(each) for each in observations[index])
            assert seen[:3] == key[1:], f"a row of {seen} came as one of {key}"
            if held is not None:
                before, choice = held
                assert seen[3:] == (before[3], before[4] + 1), f"{key}: {seen} follows {before}"
                assert choice is not None, f"{key}: an outcome without an action"
                assert rewards[index] == reward_of(before, choice), f"{key}: the reward is of another action"
                answered += 1
            if kinds[index] == RowKind.DECISION:
                self._open[key] = (seen, None)
            else:
                self._open.pop(key, None)
                self._behaviors[wire.partition("?")[0]].episodes += 1
        return answered


def _bytes_of(columns: BrainColumns) -> bytes:
    arrays = (
        columns.action_steps,
        columns.action_agents,
        columns.discrete,
        columns.row_steps,
        columns.row_agents,
        columns.row_kinds,
        columns.rewards,
        columns.observations[0],
    )
    return b"|".join(each.tobytes() for each in arrays)
