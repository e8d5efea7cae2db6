"""`TFPolicy`: the policy of a trainer, for programs that hold the loop themselves as in 2019.

Two ways lead from it to actions. `get_action` runs the network in TensorFlow, here. An EnvWorker acts with the graph of
`acting_model` in onnxruntime: that is what a `PolicyUpdate` carries, as TensorFlow stays in the learner's process.
"""

from __future__ import annotations

import operator
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from runtime.errors import PlayerContentError, ShapeError, StorageError, UsageError
from runtime.experience.actions import ActionInfo, ModelPolicy
from runtime.experience.brains import ActionSpec, Bools, BrainInfo, BrainParameters, Floats, Ints, agent_name
from runtime.experience.masks import find_blocked
from runtime.folders import checkpoint_folders
from trainers.behavior import Behavior
from trainers.checkpoints import MANIFEST
from trainers.export import ACTION_CLIP
from trainers.learner import PPOLearner
from trainers.optimizer_state import Weights
from trainers.ppo import engine
from trainers.randomness import generator

if TYPE_CHECKING:
    from trainers.ppo.acting import ActingNetwork, Tensor

STEPS_MAX = 2**63 - 1
"""Steps are counted in 64 bits."""
CHECKPOINTS = "checkpoints"


class TFPolicy(ModelPolicy):
    """The newest policy of one brain; an update changes what it does, not the object.

    model_path: as in 2019: checkpoints are written below it, and the exported model is `<model_path>.onnx`. None for a
    policy that is never saved. Samples follow from the learner's seed and the number of the call; a saved policy draws
    anew when it is loaded.
    """

    def __init__(self, learner: PPOLearner, brain: BrainParameters, model_path: Path | None = None) -> None:
        """learner: knows the brain."""
        self._learner = learner
        self._brain = brain
        self._model_path = model_path
        self._loaded: tuple[Weights, ActingNetwork, dict[str, Tensor]] | None = None
        self._rng = generator(self._behavior.key, "acting", self._behavior.version)

    @property
    def _behavior(self) -> Behavior:
        return self._learner.behavior(self._brain.behavior_name)

    @property
    def version(self) -> int:
        """1 before the first update, and 1 more after each: ActorEnvManager knows no version 0."""
        return self._behavior.version + 1

    def get_action(self, brain_info: BrainInfo) -> ActionInfo:
        """Actions for the agents that ask for a decision, sampled unless the settings say `deterministic`.

        What a policy with memory makes of `brain_info.memories` (zeros where they are not of its size) is the answer's
        `memory`: who asks gives it back with the next question, as players of 2019 do. outputs: `log_probs` float32
        (n,), `pre_action` float32 (n, c), `value` float32 (n, streams), `policy_version` float32 (n,), and with memory
        `memory_before` and `sequence_starts`. No agents: no rows. Raises ShapeError for other observations than the
        brain's, PlayerContentError for those that are not finite and for a branch without a choice.
        """
        spec, rows = self._brain.action_spec, len(brain_info.decisions)
        if not rows:
            return ActionInfo(np.zeros((0, spec.continuous_size + spec.discrete_size), np.float32))
        self._check(brain_info)
        network, weights = self._network()
        import tensorflow as tf  # noqa: PLC0415 - loaded with the network, and not before

        behavior, shape = self._behavior, self._behavior.shape
        seen = brain_info.decisions.observations
        vectors = [np.zeros((rows, 0), np.float32), *(np.asarray(each, np.float32) for each in seen if each.ndim == 2)]
        sights = [tf.constant(each) for each in seen if each.ndim > 2]
        shift, scale = behavior.normalizer.shift_and_scale()
        inputs = network.normalized(tf.constant(np.concatenate(vectors, axis=1)), shift, scale)
        before = _given_memories(brain_info, shape.memory_width)
        heads, after = network.act(weights, inputs, sights, tf.constant(before))
        masks = _masks_of(brain_info, spec)
        raw, discrete = self._chosen(heads.mean.numpy(), heads.log_std.numpy(), heads.logits.numpy(), masks)
        log_probability, _ = network.log_probability_and_entropy(
            heads, tf.constant(raw), tf.constant(discrete), tf.constant(masks)
        )
        value = heads.value.numpy()
        outputs = {
            "log_probs": log_probability.numpy(),
            "pre_action": raw,
            "value": value,
            "policy_version": np.full(rows, self.version, np.float32),
        }
        if shape.memory_size:
            outputs |= {"memory_before": before, "sequence_starts": np.ones(rows, np.float32)}
        sent = np.clip(raw, -ACTION_CLIP, ACTION_CLIP) / np.float32(ACTION_CLIP)
        action = np.concatenate([sent, discrete.astype(np.float32)], axis=1)
        return ActionInfo(action, memory=after.numpy() if shape.memory_size else None, value=value, outputs=outputs)

    def get_current_step(self) -> int:
        """Steps counted so far."""
        return self._behavior.steps

    def increment_step(self, n_steps: int) -> int:
        """Counts `n_steps` more; the count afterwards. Raises TypeError for no whole number, UsageError below 0.

        A count that 64 bits do not hold is refused too, and what was counted stays as it was.
        """
        count = operator.index(n_steps)
        if count < 0:
            raise UsageError(f"increment_step({count}): steps are never taken back; expected a number from 0.")
        total = self._behavior.steps + count
        if total > STEPS_MAX:
            raise UsageError(
                f"increment_step({count}) after {self._behavior.steps} steps: the counter has 64 bits, and holds "
                f"{STEPS_MAX} at most. Count steps, not smaller things."
            )
        self._behavior.steps = total
        return total

    def acting_model(self) -> bytes:
        """The policy of now as the ONNX graph that acts."""
        return self._behavior.release().body

    def unity_model(self) -> bytes:
        """The policy of now as the ONNX file that Unity loads."""
        return self._behavior.unity_model()

    def save_model(self, steps: int) -> Path:
        """Writes all that learning needs to go on to `<model_path>/checkpoints/<steps>`, and says where.

        Only the newest `keep_checkpoints` stay. Raises StorageError when it cannot be written.
        """
        folder = self._path / CHECKPOINTS / str(operator.index(steps))
        self._learner.begin_save({"steps": steps})(folder)
        for old in self.checkpoints()[max(1, self._behavior.settings.keep_checkpoints) :]:
            if (old / MANIFEST).exists():  # nobody else's
                shutil.rmtree(old, ignore_errors=True)
        return folder

    def export_model(self) -> Path:
        """Writes `<model_path>.onnx`, which Unity loads, and says where. Raises StorageError when it cannot."""
        path = self._path.with_name(f"{self._path.name}.onnx")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_name(f".{path.name}.part")
            unfinished.write_bytes(self.unity_model())
            unfinished.replace(path)
        except OSError as error:
            reason = error.strerror or error
            raise StorageError(f"the model {path} cannot be written: {reason}. Free the place, and export.") from error
        return path

    def checkpoints(self) -> list[Path]:
        """Folders of checkpoints below `model_path`, the newest first."""
        return list(checkpoint_folders(self._path / CHECKPOINTS))

    @property
    def _path(self) -> Path:
        if self._model_path is None:
            raise UsageError("the policy has no place to be saved; expected a model_path when its trainer was made.")
        return self._model_path

    def _network(self) -> tuple[ActingNetwork, dict[str, Tensor]]:
        """The network and its weights of now; an update replaces the weights and changes none."""
        behavior = self._behavior
        if self._loaded is None or self._loaded[0] is not behavior.weights:
            engine.load_tensorflow()
            from trainers.ppo.acting import ActingNetwork  # noqa: PLC0415 - TensorFlow, not before it is needed

            network = ActingNetwork(behavior.shape) if self._loaded is None else self._loaded[1]
            import tensorflow as tf  # noqa: PLC0415

            self._loaded = behavior.weights, network, network.tensors(tf.constant(behavior.policy_weights))
        return self._loaded[1:]

    def _chosen(self, mean: Floats, log_std: Floats, logits: Floats, masks: Bools) -> tuple[Floats, Ints]:
        """Raw samples float32 (n, c) and indices int32 (n, branches); means and likeliest ones if deterministic."""
        is_sampled = not self._behavior.settings.network_settings.deterministic
        raw = mean
        if is_sampled:
            raw = (mean + np.exp(log_std) * self._rng.standard_normal(mean.shape)).astype(np.float32)
        scores = np.where(masks, logits.astype(np.float64), -np.inf)
        if is_sampled:
            # The largest of logits with Gumbel noise is a sample of their softmax.
            scores = scores + self._rng.gumbel(size=logits.shape)
        branches, start = self._brain.action_spec.discrete_branches, 0
        discrete = np.zeros((len(mean), len(branches)), np.int32)
        for branch, size in enumerate(branches):
            discrete[:, branch] = scores[:, start : start + size].argmax(axis=1)
            start += size
        return raw, discrete

    def _check(self, info: BrainInfo) -> None:
        rows, brain = info.decisions, self._brain
        wanted = [(len(rows), *spec.shape) for spec in brain.observation_specs]
        found = [each.shape for each in rows.observations]
        if found != wanted:
            raise ShapeError(f"observations of shapes {found} for brain {brain.brain_name!r}; expected {wanted}.")
        for number, each in enumerate(rows.observations):
            is_finite = np.isfinite(each).reshape(len(rows), -1).all(axis=1)
            if not is_finite.all():
                raise self._refusal(info, int(np.argmin(is_finite)), f"observation {number} is not finite")
        branches = brain.action_spec.discrete_branches
        blocked = find_blocked(_masks_of(info, brain.action_spec), branches)
        if blocked is not None:
            row, branch = blocked
            raise self._refusal(info, row, f"all {branches[branch]} indices of branch {branch} are masked")

    def _refusal(self, info: BrainInfo, row: int, what: str) -> PlayerContentError:
        agent = agent_name(info.worker_id, int(info.decisions.agents[row]))
        return PlayerContentError(
            f"brain {self._brain.brain_name!r}, agent {agent!r}: {what}; expected finite numbers, and one index at "
            "least that is allowed. Look at the agent's sensors and masks.",
            env_id=info.worker_id,
        )


def _given_memories(info: BrainInfo, width: int) -> Floats:
    rows = len(info.decisions)
    if info.memories.shape == (rows, width):
        return np.asarray(info.memories, np.float32)
    return np.zeros((rows, width), np.float32)


def _masks_of(info: BrainInfo, spec: ActionSpec) -> Bools:
    """bool (n, mask_size). Raises ShapeError for masks of another size."""
    masks, shape = info.decisions.action_masks, (len(info.decisions), spec.mask_size)
    if masks is None:
        return np.ones(shape, np.bool_)
    if masks.shape != shape:
        raise ShapeError(f"action masks of shape {masks.shape}; expected {shape}.")
    return masks
