"""Training in one process with the replica that acts in EnvWorkers and the blocks that they send, memories included."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fakeunity.rows import Actions, BehaviorSpec, Rows, World
from fakeunity.scenes.catalogue import open_world
from runtime.acting.acted import Acted
from runtime.acting.memories import AgentMemories
from runtime.acting.replica import PolicyReplica
from runtime.experience.blocks import BlockBuilder
from runtime.experience.brains import BrainInfo, BrainParameters, DecisionRows, EnvId, Incarnation, TerminalRows
from runtime.experience.columns import StepBlock
from runtime.learner import BehaviorSettings, Learner, LearnerOptions, PolicyRelease
from runtime.messages import PolicyUpdate
from tests.support.training import brain_of, seen_by
from trainers.batches import Batch, batch_of
from trainers.behavior import Outcome
from trainers.learner import PPOLearner, create_learner
from trainers.ppo.engine import update_for
from trainers.ppo.inputs import update_inputs
from trainers.randomness import generator
from trainers.schedules import scheduled_values


def info_of(spec: BehaviorSpec, rows: Rows, env_id: EnvId) -> BrainInfo:
    """What a player of today says of these rows."""
    seen, going, done = seen_by(spec, rows), ~rows.done, rows.done
    masks = None if rows.mask is None or not rows.mask.any() else ~rows.mask[going]
    groups, paid = np.zeros(len(rows.ids), np.int32), np.zeros(len(rows.ids), np.float32)
    ids, rewards = rows.ids.astype(np.int64), rows.rewards.astype(np.float32)
    decisions = DecisionRows(
        ids[going], tuple(each[going] for each in seen), rewards[going], masks, groups[going], paid[going]
    )
    terminals = TerminalRows(
        ids[done],
        tuple(each[done] for each in seen),
        rewards[done],
        rows.interrupted[done],
        groups[done],
        paid[done],
    )
    return BrainInfo(decisions, terminals, env_id)


@dataclass
class _Place:
    """One environment with one behavior."""

    env_id: EnvId
    world: World
    brain: BrainParameters
    builder: BlockBuilder
    memories: AgentMemories = field(default_factory=AgentMemories)
    info: BrainInfo | None = None
    steps: int = 0

    def reset(self) -> StepBlock:
        self.memories.clear()
        (rows,) = self.world.reset().values()
        self.info = info_of(self.world.specs[0], rows, self.env_id)
        self.builder.record_reset({self.brain.brain_name: self.info}, reset_id=1)
        block = self.builder.take()
        assert block is not None
        return block

    def step(self, replica: PolicyReplica, version: int) -> Acted:
        name = self.brain.brain_name
        assert self.info is not None
        acted = replica.act(self.brain, version, self.info, incarnation=0, step=self.steps, memories=self.memories)
        sent = Actions(acted.actions.continuous, acted.discrete.astype(np.int64))
        (rows,) = self.world.step({name: sent}).values()
        self.info = info_of(self.world.specs[0], rows, self.env_id)
        self.builder.record_step({name: acted}, {name: self.info})
        self.steps += 1
        return acted


class ReplicaLoop:
    """Synchronous training of a scene with one behavior."""

    def __init__(
        self,
        scene: str,
        settings: BehaviorSettings,
        *,
        seed: int = 0,
        envs: int = 1,
        agents: int = 1,
        keeps_versions: int = 1,
    ) -> None:
        self.learner: Learner = create_learner(
            LearnerOptions(run_seed=seed, settings_for=lambda _: settings, keeps_versions=keeps_versions)
        )
        self.replica = PolicyReplica(seed)
        self.version = 0
        self.acts: list[tuple[EnvId, Acted]] = []
        self.places = list(_places(scene, seed=seed, envs=envs, agents=agents))
        self.brain = self.places[0].brain
        release = self.learner.add_brain(self.brain)
        assert release is not None
        self.install(release)
        for place in self.places:
            self.learner.accept(place.reset())

    @property
    def behavior(self) -> str:
        return self.brain.behavior_name

    def install(self, release: PolicyRelease) -> None:
        self.replica.install(
            PolicyUpdate(run="test", behavior=release.behavior, version=release.version, kind="onnx", body=release.body)
        )
        self.version = release.version

    def play(self, steps: int, *, cuts: Sequence[int] = ()) -> list[StepBlock]:
        """Steps of every environment, in blocks that end after the steps numbered in `cuts`, all accepted."""
        blocks = []
        for place in self.places:
            for step in range(1, steps + 1):
                self.acts.append((place.env_id, place.step(self.replica, self.version)))
                if step in cuts or step == steps:
                    block = place.builder.take()
                    assert block is not None
                    blocks.append(block)
                    self.learner.accept(block)
        return blocks

    def update(self) -> Outcome:
        outcome = self.learner.begin_update(self.behavior)()
        assert isinstance(outcome, Outcome)
        self.install(self.learner.finish_update(outcome))
        return outcome


def _places(scene: str, *, seed: int, envs: int, agents: int) -> Iterator[_Place]:
    for number in range(envs):
        world = open_world(scene, agents=agents, handshake_seed=1000 * seed + number, url_seed=0)
        brain = brain_of(world.specs[0])
        builder = BlockBuilder(EnvId(number), Incarnation(0))
        builder.add_brains([brain])
        yield _Place(EnvId(number), world, brain, builder)


@dataclass(frozen=True)
class Prepared:
    """The update that is due, its inputs, and the batch that it learns from."""

    update: Any  # TensorFlow ships no usable types.
    inputs: Mapping[str, npt.NDArray[np.generic]]
    batch: Batch


def prepared_update(learner: Learner, name: str) -> Prepared:
    """What the learner would run now, without running it."""
    assert isinstance(learner, PPOLearner)
    behavior = learner._behaviors[name]
    batch = batch_of(behavior.complete_buffer(), behavior.wires, behavior.settings.time_horizon)
    capacity = behavior._capacity(len(batch))
    inputs = update_inputs(
        batch,
        capacity,
        behavior.settings,
        snapshots=behavior.snapshots,
        snapshots_max=behavior._snapshots_max,
        scheduled=scheduled_values(behavior.settings.hyperparameters, steps=0, max_steps=1000),
        rng=generator("key", "minibatches"),
    )
    return Prepared(update_for(behavior.shape, capacity), inputs, batch)
