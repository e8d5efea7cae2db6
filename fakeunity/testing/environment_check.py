"""`check_environment`: whether a client for Python keeps the contract of ML-Agents' low-level interface.

Nothing but numpy is imported, so that the interpreter of any client can run it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fakeunity.testing.contract import ENVIRONMENT_RULES, ConformanceError, require

# `Any`: specs, steps and actions are of the classes of the client that is checked, whichever that is.
Array = NDArray[np.generic]
NOBODY = "fakeunity checks that nobody is called so"


class Environment(Protocol):
    """The low-level interface of ML-Agents 1.0 and later."""

    @property
    def behavior_specs(self) -> Mapping[str, Any]:
        """Specs of the behaviors known so far, by name."""

    def reset(self) -> object:
        """Begins all episodes anew."""

    def get_steps(self, behavior_name: str) -> tuple[Any, Any]:
        """Who waits and who ended."""

    def set_actions(self, behavior_name: str, action: Any) -> None:
        """What those who wait do."""

    def step(self) -> object:
        """One step."""

    def close(self) -> None:
        """Ends it."""


@dataclass(frozen=True, slots=True)
class EnvironmentFacts:
    """What a check saw. decisions and episodes: of all agents."""

    behaviors: tuple[str, ...]
    decisions: int
    episodes: int


def check_environment(
    open_environment: Callable[[], Environment], *, steps: int = 200, seed: int = 0, is_repeatable: bool = True
) -> EnvironmentFacts:
    """Takes `steps` steps with random legal actions and a reset in their middle, and holds all tables to the contract.

    open_environment: opens the environment anew, with the same seed, each time. seed: of the actions. is_repeatable:
    whether it must show the same when it is opened again, which costs the time again. Raises ConformanceError with the
    rule of `ENVIRONMENT_RULES` that was broken, and what was found.
    """
    first = _run(open_environment, steps, seed)
    if is_repeatable:
        again = _run(open_environment, steps, seed)
        for at, (table, other) in enumerate(zip(first.tables, again.tables, strict=False)):
            _require(_is_same(table, other), "repeat", f"another message {at + 1}")
    return EnvironmentFacts(tuple(first.names), first.decisions, first.episodes)


def _run(open_environment: Callable[[], Environment], steps: int, seed: int) -> _Run:
    env = open_environment()
    try:
        run = _Run(env, np.random.default_rng(seed))
        env.reset()
        run.go_on(steps // 2)
        try:
            env.reset()
        except Exception as error:
            raise ConformanceError("reset", ENVIRONMENT_RULES["reset"], f"{type(error).__name__}: {error}") from error
        run.go_on(steps - steps // 2)
    finally:
        env.close()
    # It may say, as it likes, that it is closed.
    with contextlib.suppress(Exception):
        env.close()
    _require(_refuses(env.step), "close", "a step of a closed environment")
    return run


@dataclass(slots=True)
class _Run:
    """One environment, and what is known of it."""

    env: Environment
    rng: np.random.Generator
    names: list[str] = field(default_factory=list)
    waiting: set[tuple[str, int]] = field(default_factory=set)
    tables: list[Mapping[str, Sequence[Array]]] = field(default_factory=list)
    decisions: int = 0
    episodes: int = 0

    def go_on(self, steps: int) -> None:
        """So many steps after a reset."""
        self.look(is_reset=True)
        for at in range(steps):
            self.act(is_first=at == 0)
            self.env.step()
            self.look(is_reset=False)

    def look(self, *, is_reset: bool) -> None:
        """Holds what every behavior shows to the contract. After a reset anybody may have ended."""
        specs = dict(self.env.behavior_specs)
        _require(bool(specs), "behaviors", "none after a reset")
        _require(_refuses(lambda: self.env.get_steps(NOBODY)), "behaviors", f"steps of {NOBODY!r}")
        self.names += [name for name in specs if name not in self.names]
        seen: dict[str, Sequence[Array]] = {}
        for name, spec in specs.items():
            waiting, ended = self.env.get_steps(name)
            columns = [_checked(name, spec, steps) for steps in (waiting, ended)]
            interrupted = np.asarray(ended.interrupted)
            _require(
                interrupted.shape == (len(ended),), "end", f"{interrupted.shape} for {len(ended)} ends of {name!r}"
            )
            for agent in np.asarray(ended.agent_id).tolist():
                is_known = is_reset or (name, agent) in self.waiting
                _require(is_known, "end", f"agent {agent} of {name!r} ends, and had not waited")
                self.waiting.discard((name, agent))
            self.waiting |= {(name, agent) for agent in np.asarray(waiting.agent_id).tolist()}
            seen[name] = [*columns[0], *columns[1], interrupted, *_masks(name, spec, waiting)]
            self.episodes += len(ended)
        self.tables.append({name: [np.array(column) for column in columns] for name, columns in seen.items()})

    def act(self, *, is_first: bool) -> None:
        """Legal actions for everybody who waits. is_first: tries a wrong number of them before."""
        for name, spec in dict(self.env.behavior_specs).items():
            waiting, _ = self.env.get_steps(name)
            count = len(waiting)
            if is_first and count:
                wrong = spec.action_spec.empty_action(count + 1)
                is_refused = _refuses(partial(self.env.set_actions, name, wrong))
                _require(is_refused, "refusal", f"{count + 1} actions for {count} agents of {name!r}")
            if count:
                self.env.set_actions(name, self._chosen(name, spec, waiting))
                self.decisions += count

    def _chosen(self, name: str, spec: Any, waiting: Any) -> Any:
        action = spec.action_spec.empty_action(len(waiting))
        branches = spec.action_spec.discrete_branches
        if spec.action_spec.continuous_size:
            size = (len(waiting), spec.action_spec.continuous_size)
            action.add_continuous(self.rng.uniform(-1, 1, size).astype(np.float32))
        if branches:
            masks = _masks(name, spec, waiting) or [np.zeros((len(waiting), size), np.bool_) for size in branches]
            legal = [[self.rng.choice(np.flatnonzero(~row)) for row in mask] for mask in masks]
            action.add_discrete(np.array(legal, np.int32).T)
        return action


def _checked(name: str, spec: Any, steps: Any) -> list[Array]:
    """The columns of one table: ids, rewards, group rewards, one array per observation."""
    ids, rewards, group_rewards = (np.asarray(each) for each in (steps.agent_id, steps.reward, steps.group_reward))
    count = len(steps)
    _require(len(set(ids.tolist())) == len(ids), "ids", f"{ids.tolist()[:20]} of {name!r}")
    sizes = [ids.shape, rewards.shape, group_rewards.shape]
    _require(sizes == [(count,)] * 3, "tables", f"{sizes} for {count} agents of {name!r}")
    shapes = [tuple(sensor.shape) for sensor in spec.observation_specs]
    found = [np.asarray(seen).shape for seen in steps.obs]
    expected = [(count, *shape) for shape in shapes]
    _require(found == expected, "tables", f"observations of {name!r} as {found}, where the spec has {expected}")
    columns = [ids, rewards, group_rewards, *map(np.asarray, steps.obs)]
    _require(all(np.isfinite(column).all() for column in columns), "finite", f"a number of {name!r} that is none")
    return columns


def _masks(name: str, spec: Any, waiting: Any) -> list[NDArray[np.bool_]]:
    """One table per branch, True = forbidden; none where the client gives none."""
    if waiting.action_mask is None:
        return []
    masks = [np.asarray(mask) for mask in waiting.action_mask]
    expected = [(len(waiting), size) for size in spec.action_spec.discrete_branches]
    found = [mask.shape for mask in masks]
    _require(found == expected, "mask", f"{found} for {name!r}, whose branches ask for {expected}")
    _require(all(mask.dtype == np.bool_ for mask in masks), "mask", f"types {[str(mask.dtype) for mask in masks]}")
    _require(not any(mask.all(axis=1).any() for mask in masks), "mask", f"nothing is left to an agent of {name!r}")
    return masks


def _is_same(first: Mapping[str, Sequence[Array]], second: Mapping[str, Sequence[Array]]) -> bool:
    return first.keys() == second.keys() and all(_are_equal(first[name], second[name]) for name in first)


def _are_equal(first: Iterable[Array], second: Iterable[Array]) -> bool:
    return all(np.array_equal(one, other) for one, other in zip(first, second, strict=True))


def _refuses(act: Callable[[], object]) -> bool:
    """Whether this raises: which class, every client decides for itself."""
    try:
        act()
    except Exception:  # noqa: BLE001 - see above
        return True
    return False


def _require(is_kept: bool, rule: str, found: str) -> None:  # noqa: FBT001 - reads as `_require(x == y, ...)`
    require(is_kept, rule, found, ENVIRONMENT_RULES)
