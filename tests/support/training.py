"""The whole training loop in one process: worlds of the fake Unity, the acting graph in onnxruntime, a learner."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import onnxruntime

from fakeunity.rows import CHANNELS, Actions, BehaviorSpec, Pixels, Rows, World
from fakeunity.scenes.catalogue import open_world
from runtime.experience.brains import (
    ActionSpec,
    BrainName,
    BrainParameters,
    EnvId,
    Floats,
    Incarnation,
    Ints,
    Observation,
    ObservationSpec,
)
from runtime.experience.columns import BrainColumns, RowKind, StepBlock
from runtime.experience.infos import observation_floats
from runtime.learner import BehaviorSettings, BrainProgress, Learner, LearnerOptions
from trainers.learner import create_learner


def brain_of(spec: BehaviorSpec) -> BrainParameters:
    """The brain that a scene's behavior announces; observations in the order of their names, as on the wire."""
    plain = [ObservationSpec(each.shape, (), int(each.is_goal), each.name) for each in spec.observations]
    images = [
        ObservationSpec((CHANNELS * each.frames, each.height, each.width), name=each.name, dtype="uint8")
        for each in spec.images
    ]
    observations = tuple(sorted([*plain, *images], key=lambda each: each.name))
    return BrainParameters(BrainName(spec.name), observations, ActionSpec(spec.continuous, spec.branches))


def pixels_of(spec: BehaviorSpec, image: int, number: int) -> Pixels:
    """uint8 (channels, height, width): the picture of that number as a player's message would bring it."""
    painted = _PAINTED.get((spec.name, image, number))
    if painted is None:
        painted = np.ascontiguousarray(spec.images[image].paint(number).transpose(2, 0, 1))
        _PAINTED[spec.name, image, number] = painted
    return painted


_PAINTED: dict[tuple[str, int, int], Pixels] = {}


def seen_by(spec: BehaviorSpec, rows: Rows) -> tuple[Observation, ...]:
    """The observations of all rows in the order of the brain's."""
    named: list[tuple[str, Observation]] = [
        (each.name, values.reshape(-1, *each.shape))
        for each, values in zip(spec.observations, rows.observations, strict=True)
    ]
    for index, (each, numbers) in enumerate(zip(spec.images, rows.images, strict=True)):
        none = np.zeros((0, CHANNELS, each.height, each.width), np.uint8)
        pictures = [pixels_of(spec, index, int(number)) for number in numbers]
        named.append((each.name, np.stack(pictures) if pictures else none))
    return tuple(values for _, values in sorted(named, key=lambda pair: pair[0]))


class Actor:
    """Acts with an ONNX graph, its samples drawn from a generator of its own."""

    def __init__(self, brain: BrainParameters) -> None:
        self.spec = brain.action_spec
        self.version = 0
        self._session: onnxruntime.InferenceSession | None = None

    def take(self, body: bytes, version: int) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(body, options, providers=["CPUExecutionProvider"])
        self.version = version

    def outputs(self, observations: tuple[Observation, ...]) -> dict[str, Floats]:
        assert self._session is not None
        names = [each.name for each in self._session.get_outputs()]
        feed = {f"obs_{index}": observation_floats(values) for index, values in enumerate(observations)}
        return dict(zip(names, self._session.run(names, feed), strict=True))

    def act(
        self,
        observations: tuple[Observation, ...],
        masks: npt.NDArray[np.bool_] | None,
        rng: np.random.Generator,
    ) -> tuple[Floats, Ints]:
        """Raw continuous samples and branch indices; masks: True = allowed."""
        outputs, rows = self.outputs(observations), len(observations[0])
        continuous: Floats = np.zeros((rows, 0), np.float32)
        if self.spec.continuous_size:
            noise = rng.standard_normal((rows, self.spec.continuous_size), dtype=np.float32)
            continuous = (outputs["mean"] + np.exp(outputs["log_std"]) * noise).astype(np.float32)
        discrete = np.zeros((rows, self.spec.discrete_size), np.int32)
        start = 0
        for branch, size in enumerate(self.spec.discrete_branches):
            logits = outputs["logits"][:, start : start + size]
            if masks is not None:
                logits = np.where(masks[:, start : start + size], logits, -np.inf)
            gumbel = -np.log(-np.log(rng.uniform(1e-12, 1.0 - 1e-12, (rows, size))))
            discrete[:, branch] = np.argmax(logits + gumbel, axis=1)
            start += size
        return continuous, discrete


@dataclass
class Environment:
    """One world, recorded as blocks; a block holds all behaviors of the scene."""

    env_id: int
    world: World
    rng: np.random.Generator
    incarnation: int = 0
    step: int = 0
    waiting: dict[str, Rows] = field(default_factory=dict)
    _records: dict[str, list[tuple[int, Rows, tuple[Floats, Ints] | None]]] = field(default_factory=dict)
    _senders: dict[str, list[tuple[int, npt.NDArray[np.int64]]]] = field(default_factory=dict)

    def reset_block(self) -> StepBlock:
        rows = self.world.reset()
        self._senders = {}
        self._records = {name: [(-1, each, None)] for name, each in rows.items()}
        self.waiting = dict(rows)
        return self._block(0, {})

    def block(self, steps: int, actors: Mapping[str, Actor]) -> StepBlock:
        self._records, self._senders = {}, {}
        for step in range(steps):
            sent: dict[str, tuple[Floats, Ints]] = {}
            actions: dict[str, Actions] = {}
            for name, rows in self.waiting.items():
                alive = ~rows.done
                masks = None if rows.mask is None else ~rows.mask[alive]
                actor = actors[name]
                seen = tuple(each[alive] for each in seen_by(self._spec(name), rows))
                sent[name] = actor.act(seen, masks, self.rng)
                continuous = np.clip(sent[name][0], -3, 3) / np.float32(3)
                actions[name] = Actions(continuous, sent[name][1].astype(np.int64))
            before, self.waiting = self.waiting, dict(self.world.step(actions))
            for name, rows in self.waiting.items():
                action = sent.get(name)
                agents = before[name].waiting() if name in before else np.zeros(0, np.int64)
                self._records.setdefault(name, []).append((step, rows, action))
                self._senders.setdefault(name, []).append((step, agents))
        return self._block(steps, {name: actor.version for name, actor in actors.items()})

    def _spec(self, name: str) -> BehaviorSpec:
        return next(each for each in self.world.specs if each.name == name)

    def _block(self, steps: int, versions: Mapping[str, int]) -> StepBlock:
        brains = {name: self._columns(name, records) for name, records in self._records.items()}
        block = StepBlock(
            env_id=EnvId(self.env_id),
            incarnation=Incarnation(self.incarnation),
            reset_id=0,
            first_step=self.step,
            steps=steps,
            versions=versions,
            decisions=sum(len(each.action_agents) for each in brains.values()),
            agent_steps=sum(len(each.action_agents) for each in brains.values()),
            pending={name: len(rows.waiting()) for name, rows in self.waiting.items()},
            brains=brains,
        )
        self.step += steps
        return block

    def _columns(self, name: str, records: list[tuple[int, Rows, tuple[Floats, Ints] | None]]) -> BrainColumns:
        spec = self._spec(name)
        seen = [seen_by(spec, each) for _, each, _ in records]
        senders = self._senders.get(name, [])
        acted = [action for _, _, action in records if action is not None]
        rows = [each for _, each, _ in records]
        count = sum(len(each.ids) for each in rows)
        kinds = [
            np.where(each.done, np.where(each.interrupted, RowKind.INTERRUPTED, RowKind.TERMINAL), RowKind.DECISION)
            for each in rows
        ]
        masks = None if rows[0].mask is None else ~np.concatenate([each.mask for each in rows if each.mask is not None])
        return BrainColumns(
            action_steps=_joined([np.full(len(agents), step) for step, agents in senders], np.int32),
            action_agents=_joined([agents for _, agents in senders], np.int64),
            continuous=np.concatenate([np.zeros((0, spec.continuous), np.float32), *[each for each, _ in acted]]),
            discrete=np.concatenate([np.zeros((0, len(spec.branches)), np.int32), *[each for _, each in acted]]),
            row_steps=_joined([np.full(len(each.ids), step) for step, each, _ in records], np.int32),
            row_agents=_joined([each.ids for each in rows], np.int64),
            row_kinds=_joined(kinds, np.uint8),
            rewards=_joined([each.rewards for each in rows], np.float32),
            observations=tuple(np.concatenate(each) for each in zip(*seen, strict=True)),
            masks=masks,
            group_ids=np.zeros(count, np.int32),
            group_rewards=np.zeros(count, np.float32),
        )


Number = TypeVar("Number", bound=np.generic)


def _joined(parts: Sequence[npt.NDArray[np.generic]], dtype: type[Number]) -> npt.NDArray[Number]:
    return np.concatenate([np.zeros(0, dtype), *parts]).astype(dtype)


class TrainingLoop:
    """Synchronous training of one scene: rounds of equal steps, an update whenever one is due."""

    def __init__(
        self,
        scene: str,
        settings: BehaviorSettings,
        *,
        seed: int = 0,
        envs: int = 1,
        agents: int = 1,
        block_steps: int = 64,
    ) -> None:
        self.learner: Learner = create_learner(LearnerOptions(run_seed=seed, settings_for=lambda _: settings))
        self.settings = settings
        self.agents = agents
        self.block_steps = block_steps
        self.environments = [
            Environment(
                index,
                open_world(scene, agents=agents, handshake_seed=seed * 1000 + index, url_seed=0),
                np.random.Generator(np.random.Philox(key=(seed << 32) + index)),
            )
            for index in range(envs)
        ]
        self.actors: dict[str, Actor] = {}

    def start(self) -> None:
        for environment in self.environments:
            block = environment.reset_block()
            self.meet(environment)
            self.learner.accept(block)

    def meet(self, environment: Environment) -> None:
        for spec in environment.world.specs:
            if spec.name not in self.actors and spec.name in environment.waiting:
                brain = brain_of(spec)
                release = self.learner.add_brain(brain)
                assert release is not None
                self.actors[spec.name] = Actor(brain)
                self.actors[spec.name].take(release.body, release.version)

    def round(self) -> None:
        """Enough steps of every environment to fill the buffer, then the updates that are due."""
        buffered = min(each.buffered for each in self.learner.progress().values())
        missing = self.settings.hyperparameters.buffer_size - buffered
        steps = max(1, min(self.block_steps, -(-missing // (self.agents * len(self.environments)))))
        for environment in self.environments:
            self.learner.accept(environment.block(steps, self.actors))
        for name, progress in self.learner.progress().items():
            if progress.is_ready_update:
                self.update(name)

    def update(self, name: str) -> None:
        release = self.learner.finish_update(self.learner.begin_update(name)())
        self.actors[name].take(release.body, release.version)

    def train(self, steps: int) -> BrainProgress:
        """Trains until the first behavior has `steps` agent steps."""
        if not self.actors:
            self.start()
        while True:
            progress = next(iter(self.learner.progress().values()))
            if progress.steps >= steps:
                return progress
            self.round()
