"""Agents of API-8 to API-10 on the wire -> columns, as the message holds them: one row per agent, done or not."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from runtime.experience.brains import Bools, BrainParameters, Floats, Ids, Observation
from runtime.players.guards import Guard
from runtime.players.images import decode_image
from runtime.players.rows import allowed_actions, content_error, finite_rewards, require_unique
from runtime.players.wire import communicator_gen1_pb2 as pb

Agents = Sequence[pb.AgentInfoProto]
MEMORIES_MAX = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class ListedAgents:
    """The agents of one brain in one message, in its order; n rows each.

    observations: the first ones after `done` where that is true. rewards, done and interrupted: of the action before.
    masks: bool, True = allowed, or None. memories: float32 (n, longest), padded with zeros, (0, 0) without any.
    previous_actions: float32 (n, width).
    """

    ids: Ids
    observations: tuple[Observation, ...]
    rewards: Floats
    done: Bools
    interrupted: Bools
    masks: Bools | None
    memories: Floats
    previous_actions: Floats
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ListReader:
    """Reads the agents of one brain."""

    brain: BrainParameters

    @property
    def _vector_size(self) -> int:
        return self.brain.vector_observation_space_size

    def read(self, agents: Agents, guard: Guard, *, may_repeat: bool = False) -> ListedAgents:
        """The agents as columns. may_repeat: an agent may be listed twice, as in a file of many messages.

        Raises PlayerContentError for not finite numbers (unless the guard replaces them), wrong sizes and masks that
        leave no choice, and PlayerProtocolError for an agent that is listed twice.
        """
        ids = np.array([agent.id for agent in agents], np.int64)
        if not may_repeat:
            require_unique(self.brain, ids, guard.place)
        observations: list[Observation] = [self._vectors(agents, ids, guard)] if self._vector_size else []
        observations += self._images(agents, ids, guard)
        done = np.array([agent.done for agent in agents], np.bool_)
        return ListedAgents(
            ids=ids,
            observations=tuple(observations),
            rewards=finite_rewards(self.brain, [agent.reward for agent in agents], ids, guard),
            done=done,
            interrupted=done & np.array([agent.max_step_reached for agent in agents], np.bool_),
            masks=allowed_actions(self.brain, [agent.action_mask for agent in agents], ids, guard.place),
            memories=self._padded(agents, ids, guard),
            previous_actions=self._previous(agents),
            texts=tuple(agent.text_observation for agent in agents),
        )

    def _vectors(self, agents: Agents, ids: Ids, guard: Guard) -> Floats:
        size = self._vector_size
        for row, agent in enumerate(agents):
            if len(agent.stacked_vector_observation) != size:
                text = f"{len(agent.stacked_vector_observation)} vector observations, expected {size}."
                raise content_error(self.brain, guard.place, ids[row], text)
        flat = itertools.chain.from_iterable(agent.stacked_vector_observation for agent in agents)
        values = np.fromiter(flat, np.float32, len(agents) * size).reshape(len(agents), size)
        return guard.finite(
            values,
            lambda at, value: content_error(
                self.brain,
                guard.place,
                ids[at[0]],
                f"observation 0 ('vector_observation') at index {at[1]} is {value}; expected a finite number.",
            ),
        )

    def _images(self, agents: Agents, ids: Ids, guard: Guard) -> list[Observation]:
        specs = [spec for spec in self.brain.observation_specs if len(spec.shape) == 3]
        for row, agent in enumerate(agents):
            if len(agent.visual_observations) != len(specs):
                text = f"{len(agent.visual_observations)} visual observations, expected {len(specs)}."
                raise content_error(self.brain, guard.place, ids[row], text)
        images: list[npt.NDArray[np.uint8]] = [np.empty((len(agents), *spec.shape), np.uint8) for spec in specs]
        for row, agent in enumerate(agents):
            for spec, image, file in zip(specs, images, agent.visual_observations, strict=True):
                try:
                    image[row] = decode_image(file, spec.shape)
                except ValueError as error:
                    raise content_error(self.brain, guard.place, ids[row], f"{spec.name}: {error}.") from error
        return list(images)

    def _padded(self, agents: Agents, ids: Ids, guard: Guard) -> Floats:
        longest = max((len(agent.memories) for agent in agents), default=0)
        if not longest:
            return np.zeros((0, 0), np.float32)
        if longest * len(agents) > MEMORIES_MAX:
            text = f"{longest} memories for each of {len(agents)} agents; at most {MEMORIES_MAX} are taken."
            raise content_error(self.brain, guard.place, ids[0], text)
        memories = np.zeros((len(agents), longest), np.float32)
        for row, agent in enumerate(agents):
            memories[row, : len(agent.memories)] = agent.memories
        return guard.finite(
            memories,
            lambda at, value: content_error(
                self.brain, guard.place, ids[at[0]], f"memory {at[1]} is {value}; expected a finite number."
            ),
        )

    def _previous(self, agents: Agents) -> Floats:
        """The last action that each agent took; zeros where the player does not tell it in full."""
        spec = self.brain.action_spec
        width = spec.continuous_size + spec.discrete_size
        previous = np.zeros((len(agents), width), np.float32)
        for row, agent in enumerate(agents):
            if len(agent.stored_vector_actions) == width:
                previous[row] = agent.stored_vector_actions
        return np.where(np.isfinite(previous), previous, np.float32(0))
