"""A recurrent policy: what the learner makes of sequences is what acted, wherever blocks and updates cut."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.acting.graphs import ActingGraph
from runtime.acting.memories import AgentMemories
from runtime.acting.replica import PolicyReplica
from runtime.errors import InternalError, UsageError
from runtime.experience.brains import Floats
from runtime.learner import BehaviorSettings, LearnerOptions, MemorySettings
from tests.support.experience_streams import Act, Feeder, Row, Step, small_brain, small_learner, small_settings
from tests.support.graphs import onnx_update
from tests.support.replicas import ReplicaLoop, prepared_update
from tests.support.strategies_experience import build_info
from trainers.export import acting_graph, unity_graph
from trainers.learner import PPOLearner, create_learner
from trainers.memory import memory_need
from trainers.networks import NetworkShape, initial_weights, named_weights
from trainers.normalizer import Normalizer

MEMORY = MemorySettings(memory_size=8, sequence_length=4)


def recurrent(*, shared_critic: bool = False, sequence_length: int = 4, normalize: bool = False) -> BehaviorSettings:
    """Settings of a small recurrent policy."""
    memory = MemorySettings(memory_size=8, sequence_length=sequence_length)
    return small_settings(
        memory=memory, shared_critic=shared_critic, normalize=normalize, buffer_size=64, batch_size=16, max_steps=10_000
    )


def behavior_of(loop: ReplicaLoop) -> Any:
    assert isinstance(loop.learner, PPOLearner)
    return loop.learner._behaviors[loop.behavior]


def acted_by(loop: ReplicaLoop, first_act: int) -> tuple[Floats, Floats]:
    """Log-probabilities and values of all acts from one on, by environment, agent and time."""
    rows: list[tuple[int, int, int, float, float]] = []
    for number, (env_id, acted) in enumerate(loop.acts[first_act:]):
        outputs = acted.action_info.outputs
        assert outputs is not None
        assert acted.value is not None
        for row, agent in enumerate(acted.agents.tolist()):
            rows.append((env_id, agent, number, float(outputs["log_probs"][row]), float(acted.value[row, 0])))
    rows.sort()
    return np.array([each[3] for each in rows], np.float32), np.array([each[4] for each in rows], np.float32)


@pytest.mark.parametrize("is_shared", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_what_is_learned_from_is_what_acted_also_after_updates(*, is_shared: bool) -> None:
    loop = ReplicaLoop("hallway", recurrent(shared_critic=is_shared, normalize=is_shared), agents=3, envs=2)
    behavior = behavior_of(loop)
    # A larger head, so that a wrong memory would be seen.
    loud = behavior.weights.flat.copy()
    named_weights(behavior.shape, loud)["logits.kernel"][:] *= 100
    behavior.weights = type(behavior.weights)(loud, behavior.weights.first, behavior.weights.second, 0)
    behavior.snapshots = [behavior._snapshot()]
    loop.replica = type(loop.replica)(0)
    loop.install(behavior.release())
    compiled = None
    for _ in range(3):
        first_act = len(loop.acts)
        loop.play(23, cuts=(1, 7, 8, 15))
        prepared = prepared_update(loop.learner, loop.behavior)
        tensors = {name: tf.constant(values) for name, values in prepared.inputs.items()}
        compiled = compiled or tf.function(prepared.update.as_acted, jit_compile=True)
        log_probability, value = compiled(tensors)
        ours, count = acted_by(loop, first_act), prepared.batch.count
        assert count == len(ours[0]) == 23 * 6
        np.testing.assert_allclose(log_probability.numpy()[:count], ours[0], rtol=0, atol=2e-5)
        np.testing.assert_allclose(value.numpy()[:count, 0], ours[1], rtol=0, atol=2e-5)
        assert np.ptp(ours[0]) > 0.1
        outcome = loop.update()
        assert outcome.statistics["first_ratio_error"] < 1e-5


def test_the_end_of_a_block_changes_no_bit_of_an_update() -> None:
    outcomes = []
    for cuts in ((), (1, 2, 3, 10, 20), tuple(range(1, 30))):
        loop = ReplicaLoop("hallway", recurrent(), agents=2, envs=1, seed=3)
        for _ in range(2):
            loop.play(30, cuts=cuts)
            outcomes.append(loop.update().weights.flat.tobytes())
    assert outcomes[:2] == outcomes[2:4] == outcomes[4:]


def test_each_episode_starts_with_nothing_and_each_sequence_where_the_one_before_ended() -> None:
    loop = ReplicaLoop("hallway", recurrent(), agents=2, envs=1)
    remembered: dict[int, npt.NDArray[np.float32]] = {}
    place = loop.places[0]
    for step in range(60):
        assert place.info is not None
        ended = set(place.info.terminals.agents.tolist())
        if step == 30:
            loop.update()
        loop.play(1)
        acted = loop.acts[-1][1]
        assert acted.remembered is not None
        assert acted.actions.memories is not None
        for row, agent in enumerate(acted.agents.tolist()):
            expected = np.zeros(16, np.float32) if agent in ended else remembered.get(agent, np.zeros(16, np.float32))
            np.testing.assert_array_equal(acted.remembered.before[row], expected)
            remembered[agent] = acted.actions.memories[row]
    assert any(np.abs(each).max() > 0 for each in remembered.values())


def test_a_buffer_with_memories_is_saved_and_gives_the_same_update(tmp_path: Path) -> None:
    loop = ReplicaLoop("hallway", recurrent(), agents=2, envs=1)
    loop.play(20)
    loop.update()
    loop.play(17, cuts=(5,))
    loop.learner.begin_save({})(tmp_path / "saved")
    again = create_learner(LearnerOptions(run_seed=0, settings_for=lambda _: recurrent()))
    again.load([tmp_path / "saved"])
    outcomes = [each.begin_update("Hallway")() for each in (loop.learner, again)]
    assert outcomes[0].weights.flat.tobytes() == outcomes[1].weights.flat.tobytes()  # type: ignore[attr-defined]  # ours


@pytest.mark.parametrize(
    ("memory", "text"),
    [
        (MemorySettings(memory_size=8, sequence_length=5), "sequence_length 4 saved, 5 now"),
        (MemorySettings(memory_size=10, sequence_length=4), "memory_size: 8 saved, 10 now"),
        (None, "memory_size: 8 saved, None now"),
    ],
)
def test_another_memory_does_not_fit_a_checkpoint(tmp_path: Path, memory: MemorySettings | None, text: str) -> None:
    brain = small_brain()
    small_learner(small_settings(memory=MEMORY), brains=[brain]).begin_save({})(tmp_path / "saved")
    other = small_learner(small_settings(memory=memory))
    with pytest.raises(UsageError, match=text):
        other.load([tmp_path / "saved"])


def test_actions_without_memories_are_a_bug() -> None:
    brain = small_brain()
    learner = small_learner(small_settings(memory=MEMORY), brains=[brain])
    feeder = Feeder(learner, brain)
    feeder.reset(Row(agent=1))
    with pytest.raises(InternalError, match="of the memories of its recurrent policy none; expected finite ones of 16"):
        feeder.steps(Step((Act(agent=1),), (Row(agent=1),)))


def shape_of(*, shared_critic: bool = False, memory_size: int = 8) -> NetworkShape:
    memory = MemorySettings(memory_size=memory_size, sequence_length=4)
    return NetworkShape.of(small_brain(), small_settings(memory=memory, shared_critic=shared_critic))


def loud_weights(shape: NetworkShape) -> Floats:
    """Weights with heads of the same size as all else."""
    flat = initial_weights(shape, "a key")
    for head in ("mean", "logits", "value"):
        named_weights(shape, flat)[f"{head}.kernel"][:] *= 50
    return flat


def by_hand(shape: NetworkShape, flat: Floats, seen: Floats, memory: Floats) -> tuple[Floats, Floats]:
    """Logits and the actor's next memory, from the equations of an LSTM, in float64."""
    weights = {name: each.astype(np.float64) for name, each in named_weights(shape, flat).items()}

    def sigmoid(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return 1.0 / (1.0 + np.exp(-x))

    linear = seen @ weights["actor.0.kernel"] + weights["actor.0.bias"]
    hidden, cells = linear * sigmoid(linear), shape.memory_size // 2
    given, cell = memory[:, :cells].astype(np.float64), memory[:, cells : 2 * cells].astype(np.float64)
    gates = hidden @ weights["actor.memory.kernel"] + weights["actor.memory.bias"]
    gates += given @ weights["actor.memory.recurrent.kernel"]
    let_in, keep, candidate, give = (gates[:, gate * cells : (gate + 1) * cells] for gate in range(4))
    cell = sigmoid(keep) * cell + sigmoid(let_in) * np.tanh(candidate)
    given = sigmoid(give) * np.tanh(cell)
    logits = given @ weights["logits.kernel"] + weights["logits.bias"]
    return logits.astype(np.float32), np.concatenate([given, cell], axis=1).astype(np.float32)


@pytest.mark.parametrize("is_shared", [False, True])
def test_the_acting_graph_says_what_the_equations_say(*, is_shared: bool) -> None:
    shape = shape_of(shared_critic=is_shared)
    flat = loud_weights(shape)
    body = acting_graph(shape, flat, Normalizer.empty(5), sequence_length=4)
    graph = ActingGraph(body, name="the policy")
    graph.check_fits(small_brain())
    assert (graph.shape.memory_size, graph.sequence_length) == (8 if is_shared else 16, 4)
    rng, memory = np.random.default_rng(1), np.zeros((7, shape.memory_width), np.float32)
    for _ in range(5):
        seen = rng.standard_normal((7, 5)).astype(np.float32)
        heads = graph.run([seen[:, :3], seen[:, 3:]], memory)
        logits, after = by_hand(shape, flat, seen, memory)
        assert heads.logits is not None
        assert heads.memory is not None
        np.testing.assert_allclose(heads.logits, logits, rtol=0, atol=1e-5)
        np.testing.assert_allclose(heads.memory[:, :8], after, rtol=0, atol=1e-6)
        memory = heads.memory
    assert np.abs(memory).max() > 0.01


@pytest.mark.parametrize("memory_size", [2, 8, 126, 256])
def test_a_row_with_memory_has_the_same_bits_in_any_batch(memory_size: int) -> None:
    shape = shape_of(memory_size=memory_size)
    graph = ActingGraph(acting_graph(shape, loud_weights(shape), Normalizer.empty(5)), name="the policy")
    assert graph.is_row_independent()
    rng = np.random.default_rng(2)
    seen = [rng.standard_normal((50, size)).astype(np.float32) for size in (3, 2)]
    memory = rng.standard_normal((50, shape.memory_width)).astype(np.float32)
    whole, single = graph.run(seen, memory), graph.run_row_by_row(seen, memory)
    for found, expected in zip(whole, single, strict=True):
        assert found is not None
        assert expected is not None
        assert found.tobytes() == expected.tobytes()


def test_the_model_for_unity_remembers_as_the_acting_graph_does() -> None:
    shape = shape_of()
    flat, empty = loud_weights(shape), Normalizer.empty(5)
    session = onnxruntime.InferenceSession(unity_graph(shape, flat, empty), providers=["CPUExecutionProvider"])
    acting = ActingGraph(acting_graph(shape, flat, empty), name="the policy")
    assert [(each.name, each.shape) for each in session.get_inputs()] == [
        ("obs_0", ["batch", 3]),
        ("obs_1", ["batch", 2]),
        ("action_masks", ["batch", 5]),
        ("recurrent_in", ["batch", 1, 8]),
    ]
    names = [each.name for each in session.get_outputs()]
    assert names[:2] == ["version_number", "memory_size"]
    assert (names[-1], session.get_outputs()[-1].shape) == ("recurrent_out", ["batch", 1, 8])
    rng, recurrent_in = np.random.default_rng(3), np.zeros((4, 1, 8), np.float32)
    memory = np.zeros((4, 16), np.float32)
    for _ in range(6):
        seen = [rng.standard_normal((4, size)).astype(np.float32) for size in (3, 2)]
        feed = {"obs_0": seen[0], "obs_1": seen[1], "action_masks": np.ones((4, 5), np.float32)}
        outputs = dict(zip(names, session.run(names, {**feed, "recurrent_in": recurrent_in}), strict=True))
        heads = acting.run(seen, memory)
        assert heads.memory is not None
        assert heads.logits is not None
        assert heads.mean is not None
        np.testing.assert_array_equal(outputs["recurrent_out"][:, 0], heads.memory[:, :8])
        best = np.stack([heads.logits[:, :3].argmax(axis=1), heads.logits[:, 3:].argmax(axis=1)], axis=1)
        np.testing.assert_array_equal(outputs["deterministic_discrete_actions"], best)
        clipped = np.clip(heads.mean, -3, 3) / np.float32(3)
        np.testing.assert_array_equal(outputs["deterministic_continuous_actions"], clipped)
        assert outputs["memory_size"].tolist() == [8.0]
        recurrent_in, memory = outputs["recurrent_out"], heads.memory
    assert np.abs(recurrent_in).max() > 0.01


@settings(deadline=None)
@given(key=st.text(min_size=1, max_size=5), memory_size=st.sampled_from([2, 6, 64]))
def test_at_first_forget_gates_lean_to_keeping_and_nothing_else_does(key: str, memory_size: int) -> None:
    shape = shape_of(memory_size=memory_size)
    named, cells = named_weights(shape, initial_weights(shape, key)), memory_size // 2
    for trunk in ("actor", "critic"):
        bias = named[f"{trunk}.memory.bias"]
        assert bias[cells : 2 * cells].tolist() == [1.0] * cells
        assert not bias[:cells].any()
        assert not bias[2 * cells :].any()


def test_who_asks_for_single_actions_keeps_the_memory_himself() -> None:
    """The holder of policies keeps none: `memories` of the question, `memory` of the answer, as in the seed."""
    brain = small_brain()
    learner = small_learner(small_settings(memory=MEMORY))
    release = learner.add_brain(brain)
    assert release is not None
    replica, kept = PolicyReplica(4), AgentMemories()
    replica.install(onnx_update("Walker", 1, release.body))
    given = np.zeros((0, 0), np.float32)
    for step in range(4):
        info = build_info(brain, np.arange(3), np.zeros(0, np.int64), rng=np.random.default_rng(step))
        asked = replica.act(brain, 1, replace(info, memories=given), incarnation=0, step=step).action_info
        acted = replica.act(brain, 1, info, incarnation=0, step=step, memories=kept).action_info
        assert asked.memory is not None
        assert acted.memory is not None
        assert asked.memory.tobytes() == acted.memory.tobytes()
        assert asked.action.tobytes() == acted.action.tobytes()
        given = asked.memory
    assert np.abs(given).max() > 0.0


def test_a_memory_counts_among_what_learning_needs() -> None:
    brain = small_brain()
    plain, remembering = (
        memory_need(brain, small_settings(memory=memory), is_async=False)
        for memory in (None, MemorySettings(memory_size=128, sequence_length=8))
    )
    assert remembering.row == plain.row + 4 * 2 * 128
    assert remembering.network > plain.network
    assert remembering.minibatch > plain.minibatch
