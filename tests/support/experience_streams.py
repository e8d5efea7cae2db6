"""Experience without players: streams of rows and actions as an environment makes them, cut into blocks at will."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from runtime.experience.brains import (
    ActionSpec,
    BrainName,
    BrainParameters,
    EnvId,
    Incarnation,
    Observation,
    ObservationSpec,
)
from runtime.experience.columns import BrainColumns, RowKind, StepBlock
from runtime.learner import (
    BehaviorSettings,
    Learner,
    LearnerOptions,
    MemorySettings,
    NetworkSettings,
    PPOHyperparameters,
    RewardSignalSettings,
)
from trainers.behavior import Outcome
from trainers.learner import create_learner


def updated(learner: Learner) -> Outcome:
    """What an update of `Walker` came to; the learner has taken it."""
    outcome = learner.begin_update("Walker")()
    assert isinstance(outcome, Outcome)
    learner.finish_update(outcome)
    return outcome


def small_brain(
    name: str = "Walker",
    *,
    observations: Sequence[int] = (3, 2),
    sights: Sequence[ObservationSpec] = (),
    continuous: int = 2,
    branches: tuple[int, ...] = (3, 2),
) -> BrainParameters:
    """A hybrid brain with two vectors, unless told otherwise; sights are announced before the last vector."""
    vectors = [ObservationSpec((size,), name=f"sensor {index}") for index, size in enumerate(observations)]
    specs = (*vectors[:-1], *sights, *vectors[-1:])
    return BrainParameters(BrainName(name), specs, ActionSpec(continuous, branches))


EYE = ObservationSpec((3, 20, 21), name="eye", dtype="uint8")
"""About the smallest image that the encoder `simple` takes."""
GRAY = ObservationSpec((1, 22, 20), name="gray")


def seeing_brain(name: str = "Walker", *, images: Sequence[ObservationSpec] = (EYE, GRAY)) -> BrainParameters:
    """A brain with two vectors and, between them, an image of bytes and one of floats."""
    return small_brain(name, sights=images)


def observation_rows(spec: ObservationSpec, x: npt.NDArray[np.float32], number: int) -> Observation:
    """What observation `number` shows for each x: the same in all numbers of a vector, else a pattern made of it."""
    if len(spec.shape) == 1:
        vectors: npt.NDArray[np.float32] = np.repeat(x[:, None], spec.shape[0], axis=1) + np.float32(0.25 * number)
        return vectors
    pattern: npt.NDArray[np.int64] = np.arange(np.prod(spec.shape), dtype=np.int64).reshape(spec.shape)
    base = np.floor(np.abs(x) * 977).astype(np.int64)[:, None, None, None]
    if len(spec.shape) == 2:
        # A changing number of things, the last of which are not there.
        count = base[:, 0, 0] % (spec.shape[0] + 1)
        is_there = np.arange(spec.shape[0])[None, :] < count
        things: npt.NDArray[np.float32] = (x[:, None, None] + pattern).astype(np.float32) * is_there[:, :, None]
        return things
    pixels: npt.NDArray[np.uint8] = ((base + 7 * pattern + number) % 256).astype(np.uint8)
    return pixels if spec.dtype == "uint8" else pixels.astype(np.float32) / np.float32(255)


def small_settings(
    *,
    normalize: bool = False,
    hidden_units: int = 8,
    num_layers: int = 1,
    gamma: float = 0.9,
    time_horizon: int = 64,
    max_steps: int = 1000,
    summary_freq: int = 100,
    vis_encode_type: str = "simple",
    goal_conditioning_type: str = "hyper",
    memory: MemorySettings | None = None,
    **hyperparameters: object,
) -> BehaviorSettings:
    """Settings of a learner that compiles fast."""
    chosen: dict[str, object] = {"batch_size": 16, "buffer_size": 32, "num_epoch": 2, **hyperparameters}
    return BehaviorSettings(
        hyperparameters=replace(PPOHyperparameters(), **chosen),  # type: ignore[arg-type]  # names and types are the caller's
        network_settings=NetworkSettings(
            normalize=normalize,
            hidden_units=hidden_units,
            num_layers=num_layers,
            vis_encode_type=vis_encode_type,
            goal_conditioning_type=goal_conditioning_type,
            memory=memory,
        ),
        reward_signals={"extrinsic": RewardSignalSettings(gamma=gamma)},
        time_horizon=time_horizon,
        max_steps=max_steps,
        summary_freq=summary_freq,
    )


def small_learner(
    settings: BehaviorSettings | None = None,
    *,
    seed: int = 0,
    brains: Iterable[BrainParameters] = (),
    keeps_versions: int = 1,
    is_training: bool = True,
) -> Learner:
    """A learner that knows `brains`."""
    chosen = settings or small_settings()
    learner = create_learner(
        LearnerOptions(
            run_seed=seed,
            settings_for=lambda _: chosen,
            keeps_versions=keeps_versions,
            is_training=is_training,
        )
    )
    for brain in brains:
        learner.add_brain(brain)
    return learner


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of one agent; `x` fills its observations."""

    agent: int
    x: float = 0.0
    reward: float = 0.0
    kind: RowKind = RowKind.DECISION
    group_reward: float = 0.0
    mask: tuple[bool, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One action of one agent; `u` fills its continuous part, `choice` its branches."""

    agent: int
    u: float = 0.0
    choice: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """One env step: the actions sent, then the rows that came back."""

    acts: tuple[Act, ...] = ()
    rows: tuple[Row, ...] = ()


def columns_of(brain: BrainParameters, steps: Sequence[tuple[int, Step]]) -> BrainColumns:
    """The columns of numbered steps."""
    spec = brain.action_spec
    acts = [(number, act) for number, step in steps for act in step.acts]
    rows = [(number, row) for number, step in steps for row in step.rows]
    x = np.asarray([row.x for _, row in rows], np.float32)
    masks = None
    if any(row.mask is not None for _, row in rows):
        everything = (True,) * spec.mask_size
        masks = np.asarray([row.mask or everything for _, row in rows], np.bool_)
    return BrainColumns(
        action_steps=np.asarray([number for number, _ in acts], np.int32),
        action_agents=np.asarray([act.agent for _, act in acts], np.int64),
        continuous=np.repeat(np.asarray([act.u for _, act in acts], np.float32)[:, None], spec.continuous_size, axis=1),
        discrete=np.repeat(np.asarray([act.choice for _, act in acts], np.int32)[:, None], spec.discrete_size, axis=1),
        row_steps=np.asarray([number for number, _ in rows], np.int32),
        row_agents=np.asarray([row.agent for _, row in rows], np.int64),
        row_kinds=np.asarray([row.kind for _, row in rows], np.uint8),
        rewards=np.asarray([row.reward for _, row in rows], np.float32),
        observations=tuple(observation_rows(each, x, index) for index, each in enumerate(brain.observation_specs)),
        masks=masks,
        group_ids=np.zeros(len(rows), np.int32),
        group_rewards=np.asarray([row.group_reward for _, row in rows], np.float32),
    )


def block_of(
    steps: Mapping[str, Sequence[Step]],
    brains: Sequence[BrainParameters],
    *,
    env_id: int = 0,
    incarnation: int = 0,
    first_step: int = 0,
    is_reset: bool = False,
    version: int = 0,
) -> StepBlock:
    """A block of steps by brain name; for the reply to a reset, of one step whose rows are the reply's."""
    length = 0 if is_reset else max((len(each) for each in steps.values()), default=0)
    by_name: dict[str, BrainParameters] = {brain.brain_name: brain for brain in brains}
    numbered = {
        name: [(-1 if is_reset else number, step) for number, step in enumerate(each)] for name, each in steps.items()
    }
    columns = {name: columns_of(by_name[name], each) for name, each in numbered.items()}
    decisions = sum(len(each.action_agents) for each in columns.values())
    return StepBlock(
        env_id=EnvId(env_id),
        incarnation=Incarnation(incarnation),
        reset_id=0,
        first_step=first_step,
        steps=length,
        versions={brain.behavior_name: version for brain in brains},
        decisions=decisions,
        agent_steps=decisions,
        pending={},
        brains=columns,
    )


@dataclass
class Feeder:
    """Feeds one environment's steps to a learner, keeping the step count."""

    learner: Learner
    brain: BrainParameters
    env_id: int = 0
    incarnation: int = 0
    version: int = 0
    step: int = 0

    def reset(self, *rows: Row) -> None:
        self._send([Step(rows=rows)], is_reset=True)

    def steps(self, *steps: Step) -> None:
        self._send(steps, is_reset=False)
        self.step += len(steps)

    def _send(self, steps: Sequence[Step], *, is_reset: bool) -> None:
        self.learner.accept(
            block_of(
                {self.brain.brain_name: steps},
                [self.brain],
                env_id=self.env_id,
                incarnation=self.incarnation,
                first_step=self.step,
                is_reset=is_reset,
                version=self.version,
            )
        )


@dataclass
class _Life:
    """Draws what the agents of one environment do: decide, idle, end, be interrupted, come and go."""

    rng: np.random.Generator
    brain: BrainParameters
    agents: int
    waiting: set[int] = field(default_factory=set)
    busy: set[int] = field(default_factory=set)
    born: int = 0

    def first(self) -> Step:
        return Step(rows=tuple(self._begin() for _ in range(self.agents)))

    def next(self) -> Step:
        acts = tuple(
            Act(agent=agent, u=float(np.float32(self.rng.normal())), choice=int(self.rng.integers(0, 2)))
            for agent in sorted(self.waiting)
        )
        self.busy |= self.waiting
        self.waiting = set()
        ends, rows = [], []
        for agent in sorted(self.busy):
            fate = self.rng.random()
            if fate < 0.25:
                continue
            self.busy.discard(agent)
            if fate < 0.4:
                kind = RowKind.TERMINAL if fate < 0.33 else RowKind.INTERRUPTED
                ends.append(self._row(agent, kind))
                if fate < 0.36:
                    rows.append(self._row(agent))
                    self.waiting.add(agent)
                else:
                    rows.append(self._begin())
            else:
                rows.append(self._row(agent))
                self.waiting.add(agent)
        return Step(acts, (*ends, *rows))

    def _begin(self) -> Row:
        agent, self.born = self.born, self.born + 1
        self.waiting.add(agent)
        return self._row(agent)

    def _row(self, agent: int, kind: RowKind = RowKind.DECISION) -> Row:
        mask = None
        if self.brain.action_spec.mask_size and self.rng.random() < 0.3:
            drawn = self.rng.random(self.brain.action_spec.mask_size) < 0.7
            # The first two actions of a branch stay allowed: those are what the agents here choose.
            start = 0
            for size in self.brain.action_spec.discrete_branches:
                drawn[start : start + 2] = True
                start += size
            mask = tuple(bool(each) for each in drawn)
        x, reward = (float(np.float32(each)) for each in self.rng.normal(size=2))
        return Row(agent=agent, x=x, reward=reward, kind=kind, mask=mask)


def random_life(brain: BrainParameters, *, seed: int, agents: int, steps: int) -> tuple[Step, list[Step]]:
    """The reply to a reset, and `steps` env steps after it; a function of the arguments."""
    life = _Life(np.random.default_rng(seed), brain, agents)
    return life.first(), [life.next() for _ in range(steps)]


def feed(feeder: Feeder, steps: Sequence[Step], cuts: Iterable[int]) -> None:
    """Feeds steps in blocks that end at the given places."""
    places = sorted({0, len(steps), *(each for each in cuts if 0 < each < len(steps))})
    for start, end in pairwise(places):
        feeder.steps(*steps[start:end])


def walkers(learner: Learner, brain: BrainParameters, *, seed: int = 0, steps: int = 20, agents: int = 3) -> None:
    """Fills a learner with some steps of some agents."""
    feeder = Feeder(learner, brain)
    first, rest = random_life(brain, seed=seed, agents=agents, steps=steps)
    feeder.reset(*first.rows)
    feeder.steps(*rest)
