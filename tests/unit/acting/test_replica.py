"""The replica chooses actions that depend on the row, the place and the policy alone, and refuses what cannot act."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.acting.acted import Acted
from runtime.acting.graphs import ActingGraph
from runtime.acting.replica import PolicyReplica
from runtime.acting.sampling import squash
from runtime.errors import InternalError, PlayerContentError, ShapeError
from runtime.experience.brains import (
    ActionSpec,
    BrainInfo,
    BrainName,
    BrainParameters,
    DecisionRows,
    EnvId,
    ObservationSpec,
)
from tests.support.graphs import GraphWriter, acting_graph, constant_graph, onnx_update, serialize
from tests.support.strategies_experience import brain_infos, brain_parameters, build_info

BOT = BrainParameters(BrainName("Bot?team=1"), (ObservationSpec((4,)),), ActionSpec(2, (3, 2)))
DISCRETE = BrainParameters(BrainName("Bot"), (ObservationSpec((4,)),), ActionSpec(0, (210, 2)))


def _replica(
    brain: BrainParameters = BOT, *, deterministic: bool = False, gives_values: bool = True, **graph: object
) -> PolicyReplica:
    replica = PolicyReplica(11, deterministic=deterministic, gives_values=gives_values)
    body = acting_graph(brain, **graph)  # type: ignore[arg-type] # passed on as given
    assert replica.install(onnx_update(brain.behavior_name, 1, body))
    return replica


def _moment(brain: BrainParameters, rows: int, *, masked: bool = False, env_id: int = 0) -> BrainInfo:
    agents, nobody = np.arange(rows, dtype=np.int64), np.zeros(0, np.int64)
    return build_info(brain, agents, nobody, rng=np.random.default_rng(rows), has_masks=masked, env_id=env_id)


def _act(replica: PolicyReplica, info: BrainInfo, brain: BrainParameters = BOT, *, step: int = 0) -> Acted:
    return replica.act(brain, 1, info, incarnation=0, step=step)


def _rows(rows: DecisionRows, chosen: list[int]) -> DecisionRows:
    return DecisionRows(
        rows.agents[chosen],
        tuple(each[chosen] for each in rows.observations),
        rows.rewards[chosen],
        None if rows.action_masks is None else rows.action_masks[chosen],
        rows.group_ids[chosen],
        rows.group_rewards[chosen],
    )


def _bits(acted: Acted) -> tuple[bytes, ...]:
    value = b"" if acted.value is None else acted.value.tobytes()
    return acted.continuous_raw.tobytes(), acted.actions.continuous.tobytes(), acted.discrete.tobytes(), value


@settings(deadline=None)
@given(brain=brain_parameters(), data=st.data(), deterministic=st.booleans(), step=st.integers(0, 1000))
def test_a_row_gets_the_same_bits_in_any_company_and_any_process(
    brain: BrainParameters, data: st.DataObject, *, deterministic: bool, step: int
) -> None:
    info = data.draw(brain_infos(brain, agents_max=20))
    count = len(info.decisions)
    some = data.draw(st.lists(st.integers(0, count - 1), unique=True)) if count else []
    replica, other = _replica(brain, deterministic=deterministic), _replica(brain, deterministic=deterministic)
    whole = _act(replica, info, brain, step=step)
    part = _act(other, replace(info, decisions=_rows(info.decisions, some)), brain, step=step)
    np.testing.assert_array_equal(part.agents, whole.agents[some])
    assert part.continuous_raw.tobytes() == whole.continuous_raw[some].tobytes()
    assert part.discrete.tobytes() == whole.discrete[some].tobytes()
    assert part.value is not None
    assert whole.value is not None
    assert part.value.tobytes() == whole.value[some].tobytes()
    assert _bits(_act(replica, info, brain, step=step)) == _bits(whole)


@given(rows=st.integers(0, 6), step=st.integers(0, 50), masked=st.booleans())
def test_shapes_dtypes_and_ranges_of_actions(rows: int, step: int, *, masked: bool) -> None:
    info = _moment(BOT, rows, masked=masked)
    acted = _act(_replica(gain=5.0), info, step=step)
    assert (acted.version, acted.agents.tolist()) == (1, list(range(rows)))
    assert acted.continuous_raw.shape == acted.discrete.shape == (rows, 2)
    assert acted.continuous_raw.dtype == np.float32
    assert acted.discrete.dtype == np.int32
    assert acted.actions.continuous.tobytes() == squash(acted.continuous_raw).tobytes()
    assert (abs(acted.actions.continuous) <= 1).all()
    assert acted.value is not None
    assert acted.value.shape == (rows, 1)
    assert acted.action_info.action.shape == (rows, 4)


def test_what_keys_the_sampling_changes_the_samples() -> None:
    info, moments = _moment(BOT, 3), []
    replica = _replica()
    moments.append(replica.act(BOT, 1, info, incarnation=0, step=0))
    moments.append(replica.act(BOT, 1, info, incarnation=1, step=0))
    moments.append(replica.act(BOT, 1, info, incarnation=0, step=1))
    moments.append(replica.act(BOT, 1, replace(info, worker_id=EnvId(1)), incarnation=0, step=0))
    moments.append(replica.act(replace(BOT, brain_name=BrainName("Bot?team=0")), 1, info, incarnation=0, step=0))
    moments.append(replica.act(BOT, 1, info, incarnation=0, step=0, seed=12))
    raws = [each.continuous_raw.tobytes() for each in moments]
    assert len(set(raws)) == len(raws)
    again = PolicyReplica(12)
    again.install(onnx_update("Bot", 1, acting_graph(BOT)))
    assert again.act(BOT, 1, info, incarnation=0, step=0).continuous_raw.tobytes() == raws[-1]


def test_many_keys_change_no_sample() -> None:
    replica, info = _replica(), _moment(BOT, 2)
    first = _act(replica, info)
    for incarnation in range(1, 1100):
        replica.act(BOT, 1, info, incarnation=incarnation, step=0)
    assert len(replica._keys) <= 1024
    assert _bits(_act(replica, info)) == _bits(first)


def test_samples_have_the_graphs_mean_and_spread() -> None:
    replica, info = _replica(), _moment(BOT, 1)
    graph = replica._policies["Bot"][1]
    assert isinstance(graph, ActingGraph)
    heads = graph.run([np.asarray(info.observations[0], np.float32)])
    assert heads.mean is not None
    assert graph.std is not None
    samples = np.concatenate([_act(replica, info, step=step).continuous_raw for step in range(4000)])
    assert abs(samples.mean(axis=0) - heads.mean[0]).max() < 5 * graph.std.max() / 4000**0.5
    assert abs(samples.std(axis=0) / graph.std - 1).max() < 5 / 8000**0.5


def test_deterministic_acts_are_the_mean_and_the_likeliest_indices() -> None:
    info = _moment(BOT, 5)
    replica = _replica(deterministic=True)
    graph = replica._policies["Bot"][1]
    assert isinstance(graph, ActingGraph)
    heads = graph.run([np.asarray(info.observations[0], np.float32)])
    acted = _act(replica, info, step=9)
    assert heads.mean is not None
    assert heads.logits is not None
    assert acted.continuous_raw.tobytes() == heads.mean.tobytes()
    likeliest = [heads.logits[:, :3].argmax(axis=1), heads.logits[:, 3:].argmax(axis=1)]
    np.testing.assert_array_equal(acted.discrete, np.stack(likeliest, axis=1))


def test_action_info_carries_log_probabilities_and_what_was_sampled() -> None:
    acted = _act(_replica(), _moment(BOT, 3, masked=True))
    info = acted.action_info
    np.testing.assert_array_equal(info.action, acted.actions.to_array())
    assert info.outputs is not None
    assert info.outputs["log_probs"].shape == (3,)
    assert np.isfinite(info.outputs["log_probs"]).all()
    assert info.outputs["pre_action"] is acted.continuous_raw
    assert info.outputs["value"] is info.value is acted.value


def test_a_policy_without_value_gives_none() -> None:
    for rows in (0, 2):
        acted = _act(_replica(streams=0), _moment(BOT, rows))
        assert acted.value is None
        assert acted.action_info.value is None
        assert "value" not in (acted.action_info.outputs or {})


def test_leaving_the_values_out_changes_no_action() -> None:
    for rows in (0, 1, 5):
        plain, short = _replica(), _replica(gives_values=False)
        whole, acted = (_act(each, _moment(BOT, rows)) for each in (plain, short))
        assert whole.value is not None
        assert acted.value is None
        assert _bits(acted)[:3] == _bits(whole)[:3]


def test_c36_a_masked_index_is_never_chosen_in_100000_acts_of_a_policy_that_prefers_it() -> None:
    logits = np.full(212, 1e38, np.float32)
    logits[[7, 8, 9, 210]] = -1e38
    replica = PolicyReplica(0)
    replica.install(onnx_update("Bot", 1, constant_graph(DISCRETE, logits=logits.tolist())))
    info = _moment(DISCRETE, 2000)
    masks = np.zeros((2000, 212), np.bool_)
    masks[:, [7, 8, 9, 210]] = True
    info = replace(info, decisions=replace(info.decisions, action_masks=masks))
    seen: set[tuple[int, int]] = set()
    for step in range(50):
        seen |= {(int(first), int(second)) for first, second in _act(replica, info, DISCRETE, step=step).discrete}
    assert seen == {(7, 0), (8, 0), (9, 0)}


@pytest.mark.parametrize("branch", [0, 1])
def test_c36_a_branch_without_any_allowed_index_is_refused_with_environment_agent_and_branch(branch: int) -> None:
    replica = PolicyReplica(0)
    replica.install(onnx_update("Bot", 1, constant_graph(DISCRETE, logits=[0.0] * 212)))
    info = _moment(DISCRETE, 3, env_id=6)
    masks = np.ones((3, 212), np.bool_)
    masks[2, slice(0, 210) if branch == 0 else slice(210, 212)] = False
    info = replace(info, decisions=replace(info.decisions, action_masks=masks))
    text = (
        rf"environment 6 \(incarnation 2\), brain 'Bot', step 9, agent '\$6-2': all (210|2) indices of branch {branch}"
    )
    with pytest.raises(PlayerContentError, match=text) as caught:
        replica.act(DISCRETE, 1, info, incarnation=2, step=9)
    assert (caught.value.env_id, caught.value.incarnation) == (6, 2)


def test_c36_an_only_branch_with_everything_masked_is_refused_and_chooses_nothing() -> None:
    brain = BrainParameters(BrainName("Bot"), (ObservationSpec((4,)),), ActionSpec(0, (210,)))
    replica = PolicyReplica(0)
    replica.install(onnx_update("Bot", 1, constant_graph(brain, logits=[3.4e38] * 210)))
    info = _moment(brain, 1, env_id=4)
    info = replace(info, decisions=replace(info.decisions, action_masks=np.zeros((1, 210), np.bool_)))
    text = (
        r"environment 4 \(incarnation 0\), brain 'Bot', step 0, agent '\$4-0': all 210 indices of branch 0 are masked"
    )
    with pytest.raises(PlayerContentError, match=text):
        _act(replica, info, brain)


def test_masks_of_the_wrong_width_are_the_players_fault() -> None:
    info = _moment(BOT, 2)
    info = replace(info, decisions=replace(info.decisions, action_masks=np.ones((2, 4), np.bool_)))
    with pytest.raises(PlayerContentError, match=r"action masks of shape \(2, 4\); expected \(2, 5\)"):
        _act(_replica(), info)


def test_observations_of_the_wrong_shape_are_the_players_fault() -> None:
    info = _moment(replace(BOT, observation_specs=(ObservationSpec((5,)),)), 2)
    with pytest.raises(PlayerContentError, match=r"observations of shapes \[\(2, 5\)\]; expected \[\(2, 4\)\]"):
        _act(_replica(), info)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_observation_that_is_not_finite_is_the_players_fault_not_the_policys(value: float) -> None:
    info = _moment(BOT, 3)
    observation = np.array(info.observations[0], np.float32)
    observation[1, 2] = value
    info = replace(info, decisions=replace(info.decisions, observations=(observation,)))
    text = r"step 0, agent '\$0-1': observation 0 is .*(nan|inf).* at index \[2\]; expected finite"
    with pytest.raises(PlayerContentError, match=text):
        _act(_replica(activation="Tanh", hidden=()), info)


def test_outputs_that_are_not_finite_name_behavior_version_and_agent() -> None:
    brain = replace(BOT, action_spec=ActionSpec(0, (4,)))
    writer = GraphWriter()
    huge = writer.constant("huge", np.array(3e38, np.float32))
    writer.add("Mul", ["obs_0", huge], "logits")
    info = _moment(brain, 2)
    observation = np.array([[0, 0, 0, 0], [0, 9, 0, 0]], np.float32)
    info = replace(info, decisions=replace(info.decisions, observations=(observation,)))
    body = serialize(writer, *_vector_infos(4))
    replica = PolicyReplica(0)
    replica.install(onnx_update("Bot", 1, body))
    with pytest.raises(InternalError, match=r"version 1 of the policy of 'Bot' gave a logits .* agent '\$0-1'"):
        _act(replica, info, brain)


def test_no_agents_get_no_actions_of_the_right_widths() -> None:
    acted = _act(_replica(), _moment(BOT, 0))
    assert acted.actions.continuous.shape == (0, 2)
    assert acted.discrete.shape == (0, 2)
    assert acted.continuous_raw.shape == (0, 2)
    assert acted.action_info.action.shape == (0, 4)


def test_older_and_equal_versions_are_ignored_and_counted_and_the_newest_kept() -> None:
    replica, body = PolicyReplica(0, versions_kept=2), acting_graph(BOT)
    assert [replica.install(onnx_update("Bot", version, body)) for version in (2, 1, 2, 3, 5, 4)] == [
        True, False, False, True, True, False,
    ]  # fmt: skip
    assert replica.versions("Bot") == (3, 5)
    assert replica.versions("Ghost") == ()
    assert [replica.has("Bot", version) for version in (2, 3, 4, 5)] == [False, True, False, True]
    assert not replica.has("Ghost", 3)
    found = replica.statistics()
    assert (found.installed_updates, found.ignored_updates, found.row_by_row) == (3, 3, ())


def test_a_version_that_is_not_here_cannot_act() -> None:
    with pytest.raises(InternalError, match=r"version 4 of behavior 'Bot' was asked to act; expected one of \[1\]"):
        _replica().act(BOT, 4, _moment(BOT, 1), incarnation=0, step=0)


@pytest.mark.parametrize(
    "other",
    [
        replace(BOT, observation_specs=(ObservationSpec((5,)),)),
        replace(BOT, observation_specs=(ObservationSpec((4,)), ObservationSpec((1,)))),
        replace(BOT, action_spec=ActionSpec(3, (3, 2))),
        replace(BOT, action_spec=ActionSpec(2, (3,))),
    ],
)
def test_a_graph_that_does_not_fit_is_refused_naming_both(other: BrainParameters) -> None:
    text = r"version 1 of the policy of 'Bot' does not fit brain 'Bot\?team=1': the graph has .*; the brain has "
    late = PolicyReplica(0)
    late.add_brain(BOT)
    with pytest.raises(ShapeError, match=text):
        late.install(onnx_update("Bot", 1, acting_graph(other)))
    assert late.versions("Bot") == ()
    early = PolicyReplica(0)
    early.install(onnx_update("Bot", 1, acting_graph(other)))
    with pytest.raises(ShapeError, match=text):
        _act(early, _moment(BOT, 2))


def test_a_graph_whose_rows_see_each_other_acts_row_by_row() -> None:
    brain = replace(BOT, action_spec=ActionSpec(0, (4,)))
    writer = GraphWriter()
    axes = writer.constant("axes", np.array([0], np.int64))
    writer.add("ReduceSum", ["obs_0", axes], "total", keepdims=1)
    writer.add("Sub", ["total", "obs_0"], "logits")
    replica = PolicyReplica(0, deterministic=True)
    replica.install(onnx_update("Bot", 1, serialize(writer, *_vector_infos(4))))
    assert replica.statistics().row_by_row == ("Bot",)
    # Alone, a row's logits are all zero, whatever the others are.
    acted = _act(replica, _moment(brain, 5), brain)
    assert acted.discrete.tolist() == [[0]] * 5


def test_a_brain_with_a_branch_of_no_size_is_refused() -> None:
    brain = replace(BOT, action_spec=ActionSpec(1, (2, 0)))
    replica = PolicyReplica(0)
    replica.install(onnx_update("Bot", 1, acting_graph(brain)))
    with pytest.raises(PlayerContentError, match="branch 1 of size 0"):
        _act(replica, _moment(brain, 1), brain)


def _vector_infos(width: int) -> tuple[list[object], list[object]]:
    from onnx import TensorProto, helper  # noqa: PLC0415 - beside its only use

    return (
        [helper.make_tensor_value_info("obs_0", TensorProto.FLOAT, ["batch", width])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", width])],
    )
