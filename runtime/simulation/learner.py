"""A simulated learner: it counts, pairs every row with its action, and folds what it accepted into its weights.

So a step that is lost, doubled or out of order changes the final weights, and one that cannot follow from what came
before is found when it is accepted.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field

from runtime.experience.brains import BrainParameters
from runtime.experience.columns import RowKind, StepBlock
from runtime.learner import BrainProgress, PolicyRelease
from runtime.simulation.errors import InvariantError
from runtime.simulation.players import Act, Observation, reward_of
from runtime.simulation.rows import events_of

_DECISION = int(RowKind.DECISION)
# (wire name, env_id, incarnation, agent)
TrajectoryKey = tuple[str, int, int, int]
# (env_id, incarnation, first step, steps, content)
Taken = tuple[int, int, int, int, int]


@dataclass(slots=True)
class Behavior:
    """What has been learned of one behavior. fold: of everything accepted so far."""

    name: str
    buffer_size: int
    max_steps: int
    steps: int = 0
    buffered: int = 0
    version: int = 0
    episodes: int = 0
    weights: int = 0
    fold: int = 0
    wires: frozenset[str] = frozenset()

    def progress(self) -> BrainProgress:
        """As the controller is told."""
        return BrainProgress(
            behavior=self.name,
            steps=self.steps,
            max_steps=self.max_steps,
            buffered=self.buffered,
            buffer_size=self.buffer_size,
            is_ready_update=self.steps < self.max_steps and self.buffered >= self.buffer_size,
            version=self.version,
            episodes=self.episodes,
            mean_reward=None,
            mean_episode_length=None,
        )

    def release(self) -> PolicyRelease:
        """The newest policy; its body holds the weights, which choose the actions."""
        body = f"{self.name} {self.version} {self.weights}".encode()
        return PolicyRelease(behavior=self.name, version=self.version, body=body)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a checkpoint holds of learning."""

    behaviors: dict[str, Behavior]
    accepted: frozenset[tuple[int, int, int]]


@dataclass(slots=True)
class SimLearner:
    """The learner's port in miniature. What it refuses (InvariantError) must never be accepted.

    accepted: (env_id, incarnation, first step) of every block taken. batches: what each update was made from, by
    behavior and in order: the blocks since the last one. resets: content of first rows, by (env_id, incarnation,
    reset id). returns: of the episodes that have ended since `take_returns`, by behavior; their last rewards here.
    lag_max: most versions by which an accepted step was late.
    """

    buffer_size: int
    max_steps: int
    accepted: set[tuple[int, int, int]] = field(default_factory=set)
    batches: list[tuple[str, tuple[Taken, ...]]] = field(default_factory=list)
    resets: dict[tuple[int, int, int], int] = field(default_factory=dict)
    lag_max: int = 0
    behaviors: dict[str, Behavior] = field(default_factory=dict)
    returns: dict[str, list[float]] = field(default_factory=dict)
    _met: set[str] = field(default_factory=set)
    _incarnations: dict[int, int] = field(default_factory=dict)
    _next_step: dict[int, int] = field(default_factory=dict)
    _acted_with: dict[tuple[int, int, str], int] = field(default_factory=dict)
    _open: dict[TrajectoryKey, tuple[Observation, int]] = field(default_factory=dict)
    _since: dict[str, list[Taken]] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """Agent steps accepted, over all behaviors."""
        return sum(each.steps for each in self.behaviors.values())

    @property
    def weights(self) -> dict[str, int]:
        """The weights of each behavior."""
        return {name: each.weights for name, each in sorted(self.behaviors.items())}

    def progress(self) -> dict[str, BrainProgress]:
        """As `Learner.progress`."""
        return {name: each.progress() for name, each in sorted(self.behaviors.items())}

    def snapshot(self) -> Snapshot:
        """What a save begun now holds."""
        copies = {name: copy(each) for name, each in self.behaviors.items()}
        return Snapshot(copies, frozenset(self.accepted))

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a save."""
        self.behaviors = {name: copy(each) for name, each in snapshot.behaviors.items()}
        self.accepted = set(snapshot.accepted)

    def add_brain(self, brain: BrainParameters) -> PolicyRelease | None:
        """As `Learner.add_brain`."""
        name = brain.behavior_name
        known = self.behaviors.get(name)
        if known is None:
            known = self.behaviors[name] = Behavior(name, self.buffer_size, self.max_steps)
        known.wires |= {brain.brain_name}
        if name in self._met:
            return None
        self._met.add(name)
        return known.release()

    def accept(self, block: StepBlock) -> None:
        """As `Learner.accept`: every step comes once, in order, under versions that never fall."""
        self._check_order(block)
        if block.versions:
            self._check_versions(block)
        content = self._pair(block)
        if not block.steps:
            self.resets[block.env_id, block.incarnation, block.reset_id] = content
            return
        taken = (block.env_id, block.incarnation, block.first_step, block.steps, content)
        for name, each in self.behaviors.items():
            each.fold = zlib.crc32(b"%d %d %d %d %d" % taken, each.fold)
            self._since.setdefault(name, []).append(taken)

    def take_returns(self) -> dict[str, list[float]]:
        """The returns that nobody has taken."""
        taken, self.returns = self.returns, {}
        return taken

    def cut(self, env_id: int | None) -> None:
        """As `Learner.cut`."""
        if env_id is None:
            self._open.clear()
            return
        for key in [each for each in self._open if each[1] == env_id]:
            del self._open[key]

    def begin_update(self, name: str) -> Callable[[], PolicyRelease]:
        """The function that finishes the update."""
        behavior = self.behaviors[name]
        if behavior.buffered < behavior.buffer_size:
            raise InvariantError(
                "LIVE", f"an update of {name} with {behavior.buffered} of {behavior.buffer_size} steps"
            )
        self.batches.append((name, tuple(self._since.pop(name, ()))))
        behavior.buffered = 0
        taken = behavior.fold

        def finish() -> PolicyRelease:
            behavior.version += 1
            behavior.weights = zlib.crc32(b"%d %d" % (behavior.version, taken), behavior.weights)
            return behavior.release()

        return finish

    def _check_order(self, block: StepBlock) -> None:
        env, incarnation, first = block.env_id, block.incarnation, block.first_step
        known = self._incarnations.get(env, -1)
        if incarnation < known:
            raise InvariantError("ID", f"environment {env}: a block of incarnation {incarnation} after one of {known}")
        if incarnation > known:
            if self._has_open(env):
                raise InvariantError("PAIR", f"environment {env}: open trajectories outlived incarnation {known}")
            self._incarnations[env], self._next_step[env] = incarnation, 0
        following = self._next_step[env]
        if first < following:
            raise InvariantError("ONCE", f"environment {env}: step {first} came after step {following - 1}")
        if first > following and self._has_open(env):
            raise InvariantError("PAIR", f"environment {env}: trajectories go on over steps that are missing")
        if not block.steps:
            self.cut(env)
        elif (env, incarnation, first) in self.accepted:
            raise InvariantError("ONCE", f"environment {env}: block {first} of incarnation {incarnation} came twice")
        else:
            self.accepted.add((env, incarnation, first))
        self._next_step[env] = first + block.steps

    def _has_open(self, env: int) -> bool:
        return any(key[1] == env for key in self._open)

    def _check_versions(self, block: StepBlock) -> None:
        for name, version in block.versions.items():
            newest = self.behaviors[name].version
            if version > newest:
                raise InvariantError("VER", f"{name} acted with version {version}, the newest is {newest}")
            self.lag_max = max(self.lag_max, newest - version)
            key = (block.env_id, block.incarnation, name)
            if version < self._acted_with.get(key, 0):
                raise InvariantError("VER", f"environment {block.env_id}: the version of {name} fell to {version}")
            self._acted_with[key] = version

    def _pair(self, block: StepBlock) -> int:
        """A number that stands for the content; rewards and observations must follow from what came before."""
        env, incarnation, is_open = block.env_id, block.incarnation, self._open
        content = 0
        for event in events_of(block):
            key = (event[0], env, incarnation, event[1])
            if isinstance(event, Act):
                content = (content * 31 + event.choice + 7) & 0xFFFFFFFF
                if key in is_open:
                    is_open[key] = (is_open[key][0], event.choice)
                continue
            wire, agent, seen, reward, kind = event
            content = (content * 1000003 + reward * 5 + kind) & 0xFFFFFFFF
            if seen[:3] != (env, incarnation, agent):
                raise InvariantError("PAIR", f"a row of {seen} came as one of {key}")
            behavior = self.behaviors.get(wire.partition("?")[0])
            if behavior is None or wire not in behavior.wires:
                raise InvariantError("SHAPE", f"rows of {wire!r} came before the brain was made known")
            held = is_open.get(key)
            if held is not None:
                before, choice = held
                if seen[3:] != (before[3], before[4] + 1) or choice < 0 or reward != reward_of(before, choice):
                    raise InvariantError("PAIR", f"{key}: {seen} with reward {reward} after {before}, action {choice}")
                behavior.steps += 1
                behavior.buffered += 1
            if kind == _DECISION:
                is_open[key] = (seen, -1)
            else:
                is_open.pop(key, None)
                behavior.episodes += 1
                self.returns.setdefault(behavior.name, []).append(float(reward))
        return content
