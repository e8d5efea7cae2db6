"""What a world and the wire tell each other: specs of behaviors, rows of agents, actions. Numpy only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from fakeunity.bounds import how_many, some

if TYPE_CHECKING:
    from fakeunity.parameters import Parameters

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Pixels = NDArray[np.uint8]
Scalar = TypeVar("Scalar", bound=np.generic)

CHANNELS = 3


@dataclass(frozen=True, slots=True)
class ObservationSpec:
    """One sensor of numbers: its name, and how many it gives.

    rows: 0 for a vector. Otherwise the sensor sees a changing number of things, at most `rows`, with size / rows
    numbers each; those that are not there are zeros at the end. is_goal: it tells what is wanted, not what is.
    """

    name: str
    size: int
    rows: int = 0
    is_goal: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """(size,) of a vector, (rows, numbers of each) of the other kind."""
        return (self.rows, self.size // self.rows) if self.rows else (self.size,)


@dataclass(frozen=True, slots=True)
class ImageSpec:
    """One camera. Its pictures are numbered from 0; `paint` gives the pixels of one, uint8 (height, width, 3).

    A world names pictures by their number only, so that each is painted and compressed once, however many agents see
    it. Row 0 is the top. frames: how many consecutive pictures, oldest first, one observation holds; number -1 is a
    black one.
    """

    name: str
    height: int
    width: int
    paint: Callable[[int], Pixels]
    frames: int = 1


@dataclass(frozen=True, slots=True)
class BehaviorSpec:
    """What a behavior sees and does.

    name: the wire name. observations: in the order of their names, as Unity sends them. continuous: number of
    continuous actions. branches: sizes of the discrete branches, empty when there are none. images: the cameras.
    is_training: False when the player acts for it by itself, and the trainer may only watch.
    """

    name: str
    observations: tuple[ObservationSpec, ...]
    continuous: int = 0
    branches: tuple[int, ...] = ()
    images: tuple[ImageSpec, ...] = ()
    is_training: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Agents of one behavior in one message, n rows in wire order.

    ids: int64 (n,), not negative. rewards: float32 (n,), since the agent's previous row. done, interrupted: bool (n,);
    interrupted says that a time limit, not the world, ended the episode. observations: float32 (n, size) per sensor;
    where done, the last ones of the finished episode. mask: bool (n, sum of branches), True = forbidden; None when the
    behavior never forbids anything. The same id may be in a done row and, later, in one that is not done.
    images: int64 (n,) per camera, numbers of pictures; (n, frames) where the spec has several. group_ids: int64 (n,),
    0 for an agent of no group; group_rewards: float32 (n,), what the group got since then; both None when the behavior
    has no groups. texts: one text observation per agent, which only the old generation carries; None for none.
    """

    ids: Ints
    rewards: Floats
    done: Bools
    interrupted: Bools
    observations: tuple[Floats, ...]
    mask: Bools | None = None
    images: tuple[Ints, ...] = ()
    group_ids: Ints | None = None
    group_rewards: Floats | None = None
    texts: tuple[str, ...] | None = None

    def waiting(self) -> Ints:
        """Ids of the agents that need an action, in the order in which the actions come back; int64 (n,)."""
        return self.ids[~self.done] if some(self.done) else self.ids

    def waiting_count(self) -> int:
        """How many those are."""
        return len(self.ids) - how_many(self.done)

    def picked(self, which: Bools | Ints) -> Rows:
        """The rows chosen by a bool (n,), or those with these indices."""
        chosen = np.flatnonzero(which) if which.dtype == np.bool_ else which
        return Rows(
            ids=self.ids[chosen],
            rewards=self.rewards[chosen],
            done=self.done[chosen],
            interrupted=self.interrupted[chosen],
            observations=tuple(seen[chosen] for seen in self.observations),
            mask=None if self.mask is None else self.mask[chosen],
            images=tuple(numbers[chosen] for numbers in self.images),
            group_ids=None if self.group_ids is None else self.group_ids[chosen],
            group_rewards=None if self.group_rewards is None else self.group_rewards[chosen],
            texts=None if self.texts is None else tuple(self.texts[n] for n in chosen),
        )

    def ended(self, *, interrupted: Bools) -> Rows:
        """The same rows as the last ones of their episodes."""
        return Rows(
            ids=self.ids,
            rewards=self.rewards,
            done=np.ones(len(self.ids), np.bool_),
            interrupted=interrupted,
            observations=self.observations,
            mask=self.mask,
            images=self.images,
            group_ids=self.group_ids,
            group_rewards=self.group_rewards,
            texts=self.texts,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Actions:
    """One row per waiting agent.

    continuous: float32 (n, number of continuous actions), finite. discrete: int64 (n, branches), in range and allowed.
    """

    continuous: Floats
    discrete: Ints


def empty_rows(spec: BehaviorSpec) -> Rows:
    """No agents at all."""
    none = np.zeros(0, np.bool_)
    observations = tuple(np.zeros((0, sensor.size), np.float32) for sensor in spec.observations)
    images = tuple(np.zeros(0, np.int64) for _ in spec.images)
    return Rows(np.zeros(0, np.int64), np.zeros(0, np.float32), none, none, observations, images=images)


class World(Protocol):
    """A scene in motion: pure logic, no clock, no I/O.

    A behavior exists from the first call whose result names it. `step` takes actions, checked by the player, for the
    waiting agents (perhaps none) of every behavior that exists.
    """

    @property
    def specs(self) -> tuple[BehaviorSpec, ...]:
        """Every behavior that may ever appear."""
        ...

    @property
    def parameters(self) -> Parameters:
        """The environment parameters that the scene obeys, which the player fills with what the trainer sends."""
        ...

    def reset(self) -> Mapping[str, Rows]:
        """The first rows of every agent's next episode."""
        ...

    def step(self, actions: Mapping[str, Actions]) -> Mapping[str, Rows]:
        """The rows that follow, by behavior."""
        ...

    def default_actions(self, spec: BehaviorSpec, rows: Rows) -> Actions:
        """What the waiting agents of `rows` do when nobody told them, or when `spec` is none for the trainer."""
        ...


def zero_actions(spec: BehaviorSpec, count: int) -> Actions:
    """What Unity applies to agents that got no action: zeros."""
    return Actions(np.zeros((count, spec.continuous), np.float32), np.zeros((count, len(spec.branches)), np.int64))


def joined(first: Rows, second: Rows) -> Rows:
    """The rows of both, in this order.

    Where one of them has a mask, nothing is forbidden to the others; what else one lacks, both must lack.
    """

    def both(a: NDArray[Scalar] | None, b: NDArray[Scalar] | None) -> NDArray[Scalar] | None:
        return None if a is None or b is None else np.concatenate((a, b))

    return Rows(
        ids=np.concatenate((first.ids, second.ids)),
        rewards=np.concatenate((first.rewards, second.rewards)),
        done=np.concatenate((first.done, second.done)),
        interrupted=np.concatenate((first.interrupted, second.interrupted)),
        observations=tuple(np.concatenate(pair) for pair in zip(first.observations, second.observations, strict=True)),
        mask=_masks(first, second),
        images=tuple(np.concatenate(pair) for pair in zip(first.images, second.images, strict=True)),
        group_ids=both(first.group_ids, second.group_ids),
        group_rewards=both(first.group_rewards, second.group_rewards),
        texts=None if first.texts is None or second.texts is None else first.texts + second.texts,
    )


def _masks(first: Rows, second: Rows) -> Bools | None:
    if first.mask is None and second.mask is None:
        return None
    width = next(rows.mask.shape[1] for rows in (first, second) if rows.mask is not None)
    parts = (np.zeros((len(rows.ids), width), np.bool_) if rows.mask is None else rows.mask for rows in (first, second))
    return np.concatenate(tuple(parts))
