"""The check of clients passes our environment, and each of its rules has a client that breaks it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pytest

from fakeunity.testing.checks import ENVIRONMENT_RULES, ConformanceError, check_environment
from runtime.players.environment import UnityEnvironment

# `Any`: tables of whatever a client has in them, right or wrong.
Bend = Callable[["Table", "Table"], None]


@dataclass
class Table:
    """What one half of `get_steps` gives, open to changes."""

    agent_id: Any
    reward: Any
    group_reward: Any
    obs: list[Any]
    action_mask: Any
    interrupted: Any

    def __len__(self) -> int:
        return len(self.agent_id)


def copied(steps: object) -> Table:
    return Table(**{each.name: _copy(getattr(steps, each.name, None)) for each in fields(Table)})


def _copy(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [np.array(each) for each in value]
    return None if value is None else np.array(value)


class Client:
    """Our client, with one thing wrong in it. bend: changes what waits and what ended, each time it is asked for."""

    def __init__(self, url: str = "fake:masked?link=memory&agents=3", bend: Bend | None = None) -> None:
        self._env = UnityEnvironment(url, seed=1)
        self._bend = bend

    @property
    def behavior_specs(self) -> Mapping[str, Any]:
        """As they are."""
        return self._env.behavior_specs

    def reset(self) -> object:
        """As it is."""
        return self._env.reset()

    def get_steps(self, behavior_name: str) -> tuple[Any, Any]:
        """Changed."""
        waiting, ended = (copied(steps) for steps in self._env.get_steps(behavior_name))
        if self._bend is not None:
            self._bend(waiting, ended)
        return waiting, ended

    def set_actions(self, behavior_name: str, action: Any) -> None:
        """As they are."""
        self._env.set_actions(behavior_name, action)

    def step(self) -> object:
        """As it is."""
        return self._env.step()

    def close(self) -> None:
        """As it is."""
        self._env.close()


class Credulous(Client):
    """Knows every behavior."""

    def get_steps(self, behavior_name: str) -> tuple[Any, Any]:
        """Of the first one, whatever is asked for."""
        return super().get_steps(next(iter(self.behavior_specs)))


class Careless(Client):
    """Takes any number of actions."""

    def set_actions(self, behavior_name: str, action: Any) -> None:
        """Sets those that fit."""
        if len(action.discrete) == len(self.get_steps(behavior_name)[0]):
            super().set_actions(behavior_name, action)


class Once(Client):
    """Can be reset once."""

    _is_reset = False

    def reset(self) -> object:
        """The first time."""
        if self._is_reset:
            raise RuntimeError("no more")
        self._is_reset = True
        return super().reset()


class Immortal(Client):
    """Takes steps when it is closed."""

    _is_closed = False

    def step(self) -> object:
        """Nothing, once it is closed."""
        return None if self._is_closed else super().step()

    def close(self) -> None:
        """Closes."""
        self._is_closed = True
        super().close()


def twice(waiting: Table, _ended: Table) -> None:
    waiting.agent_id[1:] = waiting.agent_id[0]


def too_wide(waiting: Table, _ended: Table) -> None:
    waiting.obs[0] = np.concatenate([waiting.obs[0]] * 2, axis=1)


def too_few(waiting: Table, _ended: Table) -> None:
    waiting.reward = waiting.reward[1:]


def not_a_number(_waiting: Table, ended: Table) -> None:
    ended.reward[:] = np.nan


def all_masked(waiting: Table, _ended: Table) -> None:
    waiting.action_mask[1][:] = True


def masked_in_numbers(waiting: Table, _ended: Table) -> None:
    waiting.action_mask = [mask.astype(np.int8) for mask in waiting.action_mask]


def ends_a_stranger(_waiting: Table, ended: Table) -> None:
    ended.agent_id = ended.agent_id + 100


def ends_for_no_reason(_waiting: Table, ended: Table) -> None:
    ended.interrupted = np.array(False)


def drifting() -> Callable[[], Client]:
    """Opens a player of another seed each time."""
    seeds = iter(range(10))
    return lambda: Client(f"fake:masked?link=memory&agents=3&seed={next(seeds)}")


BREAKERS: list[tuple[str, Callable[[], Client]]] = [
    ("behaviors", Credulous),
    ("ids", lambda: Client(bend=twice)),
    ("tables", lambda: Client(bend=too_wide)),
    ("tables", lambda: Client(bend=too_few)),
    ("finite", lambda: Client(bend=not_a_number)),
    ("mask", lambda: Client(bend=all_masked)),
    ("mask", lambda: Client(bend=masked_in_numbers)),
    ("end", lambda: Client(bend=ends_a_stranger)),
    ("end", lambda: Client(bend=ends_for_no_reason)),
    ("refusal", Careless),
    ("reset", Once),
    ("repeat", drifting()),
    ("close", Immortal),
]


@pytest.mark.parametrize("scene", ["hybrid", "crowd", "gridworld", "soccer", "buffer", "teacher?protocol=API-9"])
def test_our_environment_keeps_the_contract(scene: str) -> None:
    query = "&" if "?" in scene else "?"
    facts = check_environment(lambda: UnityEnvironment(f"fake:{scene}{query}link=memory&agents=2", seed=1), steps=60)
    assert facts.decisions >= 60
    assert facts.behaviors


def test_a_client_that_adds_nothing_keeps_the_contract() -> None:
    assert check_environment(Client, steps=20).episodes > 0


@pytest.mark.parametrize(("rule", "opener"), BREAKERS, ids=[f"{rule}-{n}" for n, (rule, _) in enumerate(BREAKERS)])
def test_a_client_that_breaks_a_rule_is_found(rule: str, opener: Callable[[], Client]) -> None:
    with pytest.raises(ConformanceError) as caught:
        check_environment(opener, steps=20)
    assert caught.value.rule == rule, str(caught.value)
    assert str(caught.value).startswith(ENVIRONMENT_RULES[rule])


def test_each_rule_has_a_client_that_breaks_it() -> None:
    assert {rule for rule, _ in BREAKERS} == set(ENVIRONMENT_RULES)
