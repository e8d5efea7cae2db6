"""The replica that acts: recent versions of every behavior's policy, and actions for a player's agents.

An act is a function of the policy's version, the rows, and (run seed, brain, env id, incarnation, step): neither the
other agents of a call nor the process it is made in changes a bit of a row. With memory it is also a function of what
the agent remembers, which its caller keeps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from runtime.acting.acted import Acted, Basis
from runtime.acting.counter_random import Key, stream_key
from runtime.acting.graphs import ActingGraph, Heads
from runtime.acting.handwritten import ask_policy, unpack_policy
from runtime.acting.memories import AgentMemories, Remembered, given_memories
from runtime.acting.noise import NoiseCache
from runtime.acting.sampling import choose_branches, squash, unsquash
from runtime.errors import InternalError, PlayerContentError
from runtime.experience.actions import ActionInfo, Actions, Policy
from runtime.experience.brains import BrainInfo, BrainParameters, Floats, Ints, agent_name
from runtime.experience.finite import all_finite
from runtime.experience.infos import observation_floats
from runtime.experience.masks import find_blocked
from runtime.messages import PolicyUpdate


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStatistics:
    """What a replica has done: updates installed and ignored, and behaviors whose graph must run row by row."""

    installed_updates: int
    ignored_updates: int
    row_by_row: tuple[str, ...]


class _Moment(NamedTuple):
    """Where and when an act happens; what errors name."""

    brain: BrainParameters
    info: BrainInfo
    incarnation: int
    step: int

    def place(self, row: int) -> str:
        """Environment, brain, step and agent of a row, for an error's text."""
        agent = agent_name(self.info.worker_id, int(self.info.decisions.agents[row]))
        return f"{self}, agent {agent!r}"

    def __str__(self) -> str:
        return (
            f"environment {self.info.worker_id} (incarnation {self.incarnation}), brain {self.brain.brain_name!r}, "
            f"step {self.step}"
        )

    def refuse(self, text: str) -> PlayerContentError:
        """An error that carries the environment."""
        return PlayerContentError(text, env_id=self.info.worker_id, incarnation=self.incarnation)


class PolicyReplica:
    """Acts for one process.

    run_seed: keys all sampling. deterministic: means and likeliest indices instead of samples. versions_kept: newest
    versions kept per behavior. gives_values: False where nobody asks what a graph's critic says. Not for use by two
    threads at once.
    """

    def __init__(
        self, run_seed: int, *, deterministic: bool = False, versions_kept: int = 3, gives_values: bool = True
    ) -> None:
        self._run_seed = run_seed
        self._is_deterministic = deterministic
        self._versions_kept = versions_kept
        self._gives_values = gives_values
        self._policies: dict[str, dict[int, ActingGraph | Policy]] = {}
        self._brains: dict[str, dict[str, BrainParameters]] = {}
        self._fitted: set[tuple[str, str, int]] = set()
        self._row_by_row: set[str] = set()
        self._keys: dict[tuple[int, str, int], Key] = {}
        self._noise = NoiseCache()
        self._installed = self._ignored = 0

    def add_brain(self, brain: BrainParameters) -> None:
        """Makes a brain known, so that graphs that do not fit it are refused when they arrive, not when they act."""
        self._brains.setdefault(brain.behavior_name, {})[brain.brain_name] = brain

    def install(self, update: PolicyUpdate) -> bool:
        """Takes a policy, unless its version is not newer than the newest; says whether it was taken.

        Raises ShapeError when a graph does not fit a brain known here (naming both), InternalError when its bytes are
        no graph, UsageError when a hand-written policy is none. The replica is unchanged then.
        """
        kept = self._policies.get(update.behavior, {})
        if kept and update.version <= max(kept):
            self._ignored += 1
            return False
        policy = self._load(update)
        if isinstance(policy, ActingGraph) and not kept and not policy.is_row_independent():
            self._row_by_row.add(update.behavior)
        newest = sorted({**kept, update.version: policy}.items())[-self._versions_kept :]
        self._policies[update.behavior] = dict(newest)
        self._fitted = {each for each in self._fitted if self.has(each[0], each[2])}
        self._installed += 1
        return True

    def has(self, behavior: str, version: int) -> bool:
        """True when this version of the behavior can act."""
        return version in self._policies.get(behavior, {})

    def versions(self, behavior: str) -> tuple[int, ...]:
        """The versions that can act, oldest first."""
        return tuple(self._policies.get(behavior, ()))

    def statistics(self) -> ReplicaStatistics:
        """A snapshot for tests and operators."""
        return ReplicaStatistics(
            installed_updates=self._installed,
            ignored_updates=self._ignored,
            row_by_row=tuple(sorted(self._row_by_row)),
        )

    def act(
        self,
        brain: BrainParameters,
        version: int,
        info: BrainInfo,
        *,
        incarnation: int,
        step: int,
        seed: int | None = None,
        memories: AgentMemories | None = None,
    ) -> Acted:
        """Actions for the agents of `info` that ask for a decision, in their order; without any, no policy is asked.

        step: env step of the incarnation, which keys the sampling with seed (None: the run's). memories: of the agents
        of this environment, brought up to date; None takes those in `info`, or zeros. Raises InternalError for a
        version that is not here or outputs that are not finite, PlayerContentError for rows that the player should
        not have sent (shapes, not finite, nothing allowed in a branch), ShapeError for a policy that does not fit.
        """
        policy = self._policies.get(brain.behavior_name, {}).get(version)
        if policy is None:
            raise InternalError(
                f"version {version} of behavior {brain.behavior_name!r} was asked to act; expected one of "
                f"{list(self.versions(brain.behavior_name))}. Wait until it is installed."
            )
        moment = _Moment(brain=brain, info=info, incarnation=incarnation, step=step)
        if not isinstance(policy, ActingGraph):
            return _act_by_hand(policy, version, moment)
        self._check_fits(policy, brain, version)
        observations = _checked_observations(moment)
        remembered = None
        if policy.shape.memory_size:
            remembered = _remembered(policy, moment, version, memories)
        heads = self._run(policy, moment, observations, None if remembered is None else remembered.before)
        if memories is not None and heads.memory is not None:
            memories.remember(brain.brain_name, info.decisions.agents, heads.memory)
        key = self._key(self._run_seed if seed is None else seed, brain.brain_name, incarnation)
        raw, discrete = self._choose(policy, heads, moment, key)
        basis = Basis(heads, policy.log_std, info.decisions.action_masks, brain.action_spec.discrete_branches)
        return Acted(
            agents=info.decisions.agents,
            version=version,
            actions=Actions(squash(raw), discrete, memories=heads.memory),
            continuous_raw=raw,
            value=heads.value,
            origin=basis,
            remembered=remembered,
        )

    def _load(self, update: PolicyUpdate) -> ActingGraph | Policy:
        if update.kind == "policy":
            return unpack_policy(update.body, behavior=update.behavior)
        name = f"version {update.version} of the policy of {update.behavior!r}"
        graph = ActingGraph(update.body, name=name, gives_values=self._gives_values)
        for brain in self._brains.get(update.behavior, {}).values():
            graph.check_fits(brain)
        return graph

    def _check_fits(self, graph: ActingGraph, brain: BrainParameters, version: int) -> None:
        # Checked once per brain and version: comparing specs costs as much as a layer of a small network.
        name = (brain.behavior_name, brain.brain_name, version)
        if name not in self._fitted:
            graph.check_fits(brain)
            self._fitted.add(name)

    def _run(self, graph: ActingGraph, moment: _Moment, observations: list[Floats], memory: Floats | None) -> Heads:
        if not len(moment.info.decisions):
            return _empty_heads(graph)
        is_single = moment.brain.behavior_name in self._row_by_row
        heads = (graph.run_row_by_row if is_single else graph.run)(observations, memory)
        for output in heads:
            if output is not None and not all_finite(output):
                _blame_observations(moment, observations)
                raise _diverged(graph, moment, heads)
        return heads

    def _choose(self, graph: ActingGraph, heads: Heads, moment: _Moment, key: Key) -> tuple[Floats, Ints]:
        """The raw continuous sample and the chosen indices."""
        spec, decisions = moment.brain.action_spec, moment.info.decisions
        count, branches = len(decisions.agents), spec.discrete_branches
        sizes = (spec.continuous_size, len(branches))
        draws = None
        if not self._is_deterministic and count:
            draws = self._noise.draws(key, moment.info.worker_id, decisions.agents, step=moment.step, sizes=sizes)
        raw: Floats
        if heads.mean is not None and graph.std is not None:
            raw = heads.mean if draws is None else np.add(heads.mean, graph.std * draws.normals)
        else:
            raw = np.zeros((count, 0), np.float32)
        if heads.logits is None:
            return raw, np.zeros((count, 0), np.int32)
        uniforms = None if draws is None else draws.uniforms
        return raw, choose_branches(heads.logits, decisions.action_masks, branches, uniforms=uniforms)

    def _key(self, seed: int, brain: str, incarnation: int) -> Key:
        name = (seed, brain, incarnation)
        key = self._keys.get(name)
        if key is None:
            if len(self._keys) >= 1024:
                self._keys.clear()
            key = self._keys[name] = stream_key(seed, incarnation=incarnation, brain=brain)
        return key


def _remembered(graph: ActingGraph, moment: _Moment, version: int, memories: AgentMemories | None) -> Remembered:
    if memories is None:
        return given_memories(moment.info, graph.shape.memory_size)
    return memories.recall(
        moment.brain.brain_name,
        moment.info,
        version=version,
        size=graph.shape.memory_size,
        sequence_length=graph.sequence_length,
    )


def _act_by_hand(policy: Policy, version: int, moment: _Moment) -> Acted:
    rows, spec = moment.info.decisions, moment.brain.action_spec
    answer = ActionInfo(np.zeros((0, spec.continuous_size + spec.discrete_size), np.float32))
    actions = Actions(np.zeros((0, spec.continuous_size), np.float32), np.zeros((0, spec.discrete_size), np.int32))
    if len(rows):
        _check_masks(moment)
        answer, actions = ask_policy(policy, moment.brain, moment.info)
    return Acted(
        agents=rows.agents,
        version=version,
        actions=actions,
        continuous_raw=unsquash(actions.continuous),
        value=None if answer.value is None else np.asarray(answer.value, np.float32),
        origin=answer,
    )


def _checked_observations(moment: _Moment) -> list[Floats]:
    """The observations as floats. Raises PlayerContentError when their shapes or the masks are not the brain's."""
    rows, specs = moment.info.decisions, moment.brain.observation_specs
    count = len(rows.agents)
    wanted = [(count, *spec.shape) for spec in specs]
    found = [each.shape for each in rows.observations]
    if found != wanted:
        raise moment.refuse(
            f"{moment}: observations of shapes {found}; expected {wanted}. Give every agent of the "
            "brain the same sensors."
        )
    _check_masks(moment)
    return [observation_floats(each) for each in rows.observations]


def _check_masks(moment: _Moment) -> None:
    masks, branches = moment.info.decisions.action_masks, moment.brain.action_spec.discrete_branches
    if masks is None:
        if 0 in branches:
            raise moment.refuse(
                f"brain {moment.brain.brain_name!r} has branch {branches.index(0)} of size 0, in which no index can be "
                f"chosen (branches {branches}); expected sizes of at least 1"
            )
        return
    if masks.shape != (len(moment.info.decisions), moment.brain.action_spec.mask_size):
        raise moment.refuse(
            f"{moment}: action masks of shape {masks.shape}; expected "
            f"{(len(moment.info.decisions), moment.brain.action_spec.mask_size)}"
        )
    blocked = find_blocked(masks, branches)
    if blocked is not None:
        row, branch = blocked
        raise moment.refuse(
            f"{moment.place(row)}: all {branches[branch]} indices of branch {branch} are masked; expected at least one "
            "that is allowed. Leave a do-nothing index unmasked in WriteDiscreteActionMask."
        )


def _blame_observations(moment: _Moment, observations: list[Floats]) -> None:
    """Raises PlayerContentError when what was not finite came from the player."""
    for number, observation in enumerate(observations):
        if not np.isfinite(observation).all():
            row, *index = (int(each) for each in np.argwhere(~np.isfinite(observation))[0])
            value = observation[(row, *index)]
            raise moment.refuse(
                f"{moment.place(row)}: observation {number} is {value!r} at index {index}; expected finite numbers. "
                "Check what the agent's sensors divide by."
            )


def _diverged(graph: ActingGraph, moment: _Moment, heads: Heads) -> InternalError:
    """The first head that is not finite, and for whom."""
    head, output = next(
        (head, output)
        for head, output in zip(Heads._fields, heads, strict=True)
        if output is not None and not all_finite(output)
    )
    row = int(np.argmin(np.isfinite(output).all(axis=1)))
    return InternalError(
        f"{graph.name} gave a {head} that is not finite for {moment.place(row)}, from finite observations; expected "
        "finite numbers. Training has diverged: resume from an earlier checkpoint with a smaller learning_rate."
    )


def _empty_heads(graph: ActingGraph) -> Heads:
    shape = graph.shape
    sizes = {
        "mean": shape.continuous_size,
        "logits": shape.logits_size,
        "value": shape.streams if graph.gives_values else 0,
        "memory": shape.memory_size,
    }
    return Heads(*(np.zeros((0, sizes[head]), np.float32) if sizes[head] else None for head in Heads._fields))
