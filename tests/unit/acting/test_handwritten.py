"""Hand-written policies act as they answer, and wrong answers are refused naming their class."""

from __future__ import annotations

from dataclasses import replace

import cloudpickle
import numpy as np
import pytest

from runtime.acting.acted import Acted
from runtime.acting.replica import PolicyReplica
from runtime.errors import PlayerContentError, ShapeError, UsageError
from runtime.experience.actions import ActionInfo, Actions, Policy
from runtime.experience.brains import ActionSpec, BrainInfo, BrainName, BrainParameters, ObservationSpec
from runtime.messages import PolicyUpdate
from tests.support.strategies_experience import build_info

BOT = BrainParameters(BrainName("Bot?team=1"), (ObservationSpec((4,)),), ActionSpec(2, (3, 2)))


def _moment(rows: int) -> BrainInfo:
    agents, nobody = np.arange(rows, dtype=np.int64), np.zeros(0, np.int64)
    return build_info(BOT, agents, nobody, rng=np.random.default_rng(rows))


def _act(replica: PolicyReplica, info: BrainInfo) -> Acted:
    return replica.act(BOT, 1, info, incarnation=0, step=0)


class _Fixed(Policy):
    """Answers what it was made with."""

    def __init__(self, answer: object) -> None:
        self._answer = answer

    def get_action(self, brain_info: BrainInfo) -> ActionInfo:
        return self._answer  # type: ignore[return-value] # tests give wrong answers


class _Refusing(Policy):
    """Must not be asked."""

    def get_action(self, brain_info: BrainInfo) -> ActionInfo:
        msg = "a policy was asked without agents"
        raise AssertionError(msg)


def _hand_update(policy: object, version: int = 1) -> PolicyUpdate:
    return PolicyUpdate(run="test", behavior="Bot", version=version, kind="policy", body=cloudpickle.dumps(policy))


def _by_hand(answer: object, rows: int = 2, *, masked: bool = False) -> Acted:
    replica = PolicyReplica(0)
    replica.install(_hand_update(_Fixed(answer)))
    info = _moment(rows)
    if masked:
        masks = np.array([[True, False, True, True, True]] * rows)
        info = replace(info, decisions=replace(info.decisions, action_masks=masks))
    return _act(replica, info)


def test_a_hand_written_policys_answer_is_sent_as_it_is() -> None:
    action = np.array([[0.5, -1, 2, 0], [1, 0.25, 0, 1]])
    value = np.array([[1.0], [2.0]], np.float32)
    acted = _by_hand(ActionInfo(action, value=value, text=["a", "b"]), masked=True)
    assert acted.actions.continuous.tolist() == [[0.5, -1], [1, 0.25]]
    assert acted.continuous_raw.tolist() == [[1.5, -3], [3, 0.75]]
    assert acted.discrete.tolist() == [[2, 0], [0, 1]]
    assert acted.action_info.text == ["a", "b"]
    assert acted.value is not None
    assert acted.value.tolist() == [[1.0], [2.0]]
    assert isinstance(acted.actions, Actions)


@pytest.mark.parametrize(
    ("answer", "error", "complaint"),
    [
        (None, ShapeError, "returned a NoneType; expected an ActionInfo"),
        (
            ActionInfo(np.zeros((3, 4), np.float32)),
            ShapeError,
            r"shape \(3, 4\) for brain 'Bot\?team=1'; expected \(2, 4\)",
        ),
        (ActionInfo(np.zeros((2, 3), np.float32)), ShapeError, r"shape \(2, 3\)"),
        (ActionInfo([["left"] * 4] * 2), ShapeError, "no array of numbers"),  # type: ignore[arg-type] # wrong on purpose
        (ActionInfo(np.array([[0, 0, 0, 0], [0, np.nan, 0, 0]])), UsageError, r"agent '\$0-1' .* finite"),
        (ActionInfo(np.array([[0, 0, 0, 0], [0, 0, 0, 2]])), UsageError, r"chose 2 in branch 1 for agent '\$0-1'"),
        (ActionInfo(np.array([[0, 0, -1, 0], [0, 0, 0, 1]])), UsageError, r"chose -1 in branch 0 for agent '\$0-0'"),
        (ActionInfo(np.array([[0, 0, 1e30, 0], [0, 0, 0, 1]])), UsageError, r"chose \d+ in branch 0"),
        (ActionInfo(np.array([[0, 0, 0, 0], [0, 0, 1, 1]])), UsageError, r"chose 1 in branch 0 .* not masked"),
    ],
)
def test_a_hand_written_policys_mistakes_name_its_class(answer: object, error: type[Exception], complaint: str) -> None:
    with pytest.raises(error, match=rf"test_handwritten\._Fixed.*{complaint}"):
        _by_hand(answer, masked=True)


def test_no_agents_need_no_answer() -> None:
    replica = PolicyReplica(0)
    replica.install(_hand_update(_Refusing()))
    acted = _act(replica, _moment(0))
    assert acted.actions.continuous.shape == (0, 2)
    assert acted.discrete.shape == (0, 2)
    assert acted.continuous_raw.shape == (0, 2)
    assert acted.action_info.action.shape == (0, 4)


def test_a_hand_written_policy_is_asked_only_when_every_branch_allows_something() -> None:
    replica, info = PolicyReplica(0), _moment(1)
    replica.install(_hand_update(_Refusing()))
    info = replace(info, decisions=replace(info.decisions, action_masks=np.zeros((1, 5), np.bool_)))
    with pytest.raises(PlayerContentError, match="all 3 indices of branch 0 are masked"):
        _act(replica, info)


def test_a_policy_update_that_carries_something_else_is_refused() -> None:
    with pytest.raises(UsageError, match="the policy for 'Bot' is a dict; expected an object of a class derived from"):
        PolicyReplica(0).install(_hand_update({}))
