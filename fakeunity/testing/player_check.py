"""`check_player`: whether a player keeps the contract of the protocol, played through from the trainer's side."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from fakeunity.testing.contract import require
from fakeunity.testing.tongues import (
    Agent,
    Behavior,
    Sensor,
    Shape,
    Told,
    Tongue,
    check_second_call,
    closing,
    heard_hello,
)

PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
Choice = tuple[tuple[float, ...], tuple[int, ...]]


class Talks(Protocol):
    """A player that is asked for its calls: one in memory, or one that a `PlayerServer` waits for."""

    def exchange(self, request_reply: bytes | None) -> bytes | None:
        """Its next call, after this reply to its last (None before the first); None when it has ended."""

    def close(self) -> None:
        """Ends it; harmless twice."""


@dataclass(frozen=True, slots=True)
class PlayerFacts:
    """What a check saw: the more of it there is, the more the check is worth.

    behaviors: names, in the order in which they were announced. messages: with rows. decisions and episodes: of all
    agents; there is at least one decision.
    """

    version: str
    behaviors: tuple[str, ...]
    messages: int
    decisions: int
    episodes: int


def check_player(
    open_player: Callable[[], Talks], *, steps: int = 200, seed: int = 0, is_repeatable: bool = True
) -> PlayerFacts:
    """Plays `steps` random steps with a reset in their middle, and holds every call against the contract.

    open_player: opens a new player each time, of either generation. seed: of the actions and for the player.
    is_repeatable: whether a second player with the same seed must show the same, which costs the time again. Raises
    ConformanceError with the rule of `PLAYER_RULES` that was broken, and what was found; also when nobody waited for an
    action in all these steps, since nothing was tested then.
    """
    first = _played(open_player, steps, seed)
    if is_repeatable:
        again = _played(open_player, steps, seed)
        for at, (told, repeated) in enumerate(zip(first.told, again.told, strict=False)):
            require(told == repeated, "repeat", f"another message {at + 1} after the second call")
    return first.facts()


def _played(open_player: Callable[[], Talks], steps: int, seed: int) -> _Play:
    player = open_player()
    try:
        hello, tongue = heard_hello(player.exchange(None))
        play = _Play(player, tongue, random.Random(seed), hello.version, tells_control=tongue.tells_control)
        play.announce(hello.announced)
        check_second_call(player.exchange(tongue.greeting(seed)))
        for count in (steps // 2, steps - steps // 2):
            play.reset()
            for _ in range(count):
                play.step()
        require(player.exchange(closing()) is None, "stop", "another call")
        seen = f"none in {len(play.told)} messages; announced are {list(play.behaviors)}"
        require(play.decisions > 0, "decisions", seen)
        return play
    finally:
        player.close()


@dataclass(slots=True)
class _Play:
    """One conversation after the handshake, and what is known from it."""

    player: Talks
    tongue: Tongue
    rng: random.Random
    version: str
    behaviors: dict[str, Behavior] = field(default_factory=dict)
    watched: set[str] = field(default_factory=set)
    """Behaviors that the player acts for by itself."""
    tells_control: bool = False
    """Whether a behavior that is not said to be the trainer's is the player's own."""
    shapes: dict[str, tuple[Shape, ...]] = field(default_factory=dict)
    waiting: dict[str, tuple[Agent, ...]] = field(default_factory=dict)
    open: set[tuple[str, int]] = field(default_factory=set)
    """Who has waited since its last end."""
    told: list[Told] = field(default_factory=list)
    decisions: int = 0
    episodes: int = 0

    def facts(self) -> PlayerFacts:
        """What was seen."""
        return PlayerFacts(self.version, tuple(self.behaviors), len(self.told), self.decisions, self.episodes)

    def announce(self, behaviors: tuple[Behavior, ...]) -> None:
        """Behaviors of one message, all of them new.

        In the new generation many players leave the field unset, which cannot be told from false: it means "the
        player's own" only from a player that says true of another behavior, now or before.
        """
        self.tells_control |= any(behavior.is_training for behavior in behaviors)
        for behavior in behaviors:
            self._learn(behavior)
            if self.tells_control and not behavior.is_training:
                self.watched.add(behavior.name)

    def _learn(self, behavior: Behavior) -> None:
        name = behavior.name
        require(name not in self.behaviors, "announced", f"{name!r} a second time")
        sizes = (behavior.continuous, *behavior.branches)
        is_sound = max(sizes) > 0 and behavior.continuous >= 0 and all(size > 0 for size in behavior.branches)
        require(is_sound, "actions", f"{name!r} has {behavior.continuous} continuous, branches {behavior.branches}")
        self.behaviors[name] = behavior
        if behavior.sensors is not None:
            self.shapes[name] = behavior.sensors

    def reset(self) -> None:
        """Everybody begins anew: who waited may end or be forgotten."""
        self._hear(self.tongue.reset())

    def step(self) -> None:
        """An action for everybody who waits."""
        actions = {
            name: [self._chosen(self.behaviors[name], agent) for agent in agents]
            for name, agents in self.waiting.items()
            if agents and name not in self.watched
        }
        self.decisions += sum(map(len, actions.values()))
        self._hear(self.tongue.step(actions))

    def _chosen(self, behavior: Behavior, agent: Agent) -> Choice:
        mask = agent.mask or (False,) * sum(behavior.branches)
        legal = [[n for n, is_forbidden in enumerate(part) if not is_forbidden] for part in _parts(behavior, mask)]
        continuous = tuple(self.rng.uniform(-1, 1) for _ in range(behavior.continuous))
        return continuous, tuple(self.rng.choice(allowed) for allowed in legal)

    def _hear(self, reply: bytes) -> None:
        call = self.player.exchange(reply)
        require(call is not None, "message", f"the player ended after {len(self.told)} of them")
        told = self.tongue.told(call or b"")
        for behavior in told.announced:
            require(bool(told.rows.get(behavior.name)), "announced", f"{behavior.name!r} without an agent")
        self.announce(told.announced)
        for name, agents in told.rows.items():
            require(name in self.behaviors, "announced", f"agents of {name!r}; announced are {list(self.behaviors)}")
            self._look_at(self.behaviors[name], agents)
        self.told.append(told)

    def _look_at(self, behavior: Behavior, agents: tuple[Agent, ...]) -> None:
        for agent in sorted(agents, key=lambda agent: not agent.done):
            self._check_row(behavior, agent)
        here = tuple(agent for agent in agents if not (agent.done and self.tongue.ends_in_rows_of_their_own))
        numbers = [agent.number for agent in here]
        twice = next((number for number in numbers if numbers.count(number) > 1), None) if _has_twice(numbers) else None
        require(twice is None, "ids", f"agent {twice} of {behavior.name!r} twice")
        self.waiting[behavior.name] = here
        self.episodes += sum(agent.done for agent in agents)

    def _check_row(self, behavior: Behavior, agent: Agent) -> None:
        place = f"agent {agent.number} of {behavior.name!r}"
        shapes = self.shapes.setdefault(behavior.name, tuple(sensor.shape for sensor in agent.sensors))
        require(
            len(agent.sensors) == len(shapes), "shape", f"{len(agent.sensors)} sensors of {place}, not {len(shapes)}"
        )
        for at, (sensor, shape) in enumerate(zip(agent.sensors, shapes, strict=True)):
            _check_sensor(sensor, shape, f"sensor {at} of {place}")
        require(all(map(math.isfinite, agent.rewards)), "finite", f"reward {agent.rewards} of {place}")
        require(len(agent.mask) in (0, sum(behavior.branches)), "mask", f"{len(agent.mask)} entries for {place}")
        is_free = all(not all(part) for part in _parts(behavior, agent.mask)) if agent.mask else True
        require(is_free or agent.done, "mask", f"nothing is left in a branch for {place}")
        require(agent.done or not agent.interrupted, "end", f"{place} is interrupted and not done")
        if not agent.done:
            self.open.add((behavior.name, agent.number))
        elif self.tongue.ends_in_rows_of_their_own:
            require((behavior.name, agent.number) in self.open, "end", f"{place} ends, and had not waited")
            self.open.remove((behavior.name, agent.number))


def _has_twice(numbers: list[int]) -> bool:
    return len(set(numbers)) < len(numbers)


def _parts(behavior: Behavior, mask: tuple[bool, ...]) -> Iterator[tuple[bool, ...]]:
    at = 0
    for size in behavior.branches:
        yield mask[at : at + size]
        at += size


def _check_sensor(sensor: Sensor, shape: Shape, place: str) -> None:
    if not sensor.picture:
        is_right = sensor.shape == shape and len(sensor.numbers) == math.prod(shape)
        require(is_right, "shape", f"{len(sensor.numbers)} numbers as {sensor.shape} in {place}, which has {shape}")
        require(all(map(math.isfinite, sensor.numbers)), "finite", f"a number in {place} that is none")
        return
    require(sensor.shape in (shape, ()), "shape", f"a picture as {sensor.shape} in {place}, which has {shape}")
    require(sensor.picture.startswith(PNG_MAGIC), "shape", f"a picture in {place} that is no PNG")
    width, height = (int.from_bytes(sensor.picture[start : start + 4], "big") for start in (16, 20))
    is_fitting = (height, width) in (shape[-2:], shape[:2])
    require(is_fitting, "shape", f"a picture of {width} x {height} in {place}, which has {shape}")
