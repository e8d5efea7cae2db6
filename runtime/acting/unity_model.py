"""A model file as Unity sees it: its inputs, outputs and constants, what Unity's importer would refuse, a run on noise.

The contract is the one of ML-Agents' models of version 3 ("MLAgents 2.0"): inputs `obs_i` in the order of the sensors'
names, `action_masks` (1 = allowed) and `recurrent_in`; version, sizes and shapes are outputs that are constant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
from google.protobuf.message import DecodeError

from runtime.acting.graphs import Session
from runtime.errors import UsageError

Array = npt.NDArray[Any]  # whatever dtype the model gives

VERSIONS: Final = {2: "Unity packages 1.x", 3: "MLAgents 2.0"}
_OBSERVATION: Final = "obs_"
_SHAPES: Final = ("continuous_action_output_shape", "discrete_action_output_shape")
_LEGACY_INPUTS: Final = ("prev_action", "epsilon", "sequence_length")


@dataclass(frozen=True, slots=True)
class Tensor:
    """One input or output. shape: numbers, or names of axes such as `batch`."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]

    def __str__(self) -> str:
        return f"{self.name} {self.dtype} [{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnityModel:
    """What a file holds. constants: float32 outputs whose values do not depend on the observations, by name."""

    name: str
    size_bytes: int
    ir_version: int
    opset: int
    producer: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    constants: Mapping[str, Array]
    session: Session

    @property
    def observations(self) -> tuple[Tensor, ...]:
        """The inputs `obs_0`, `obs_1` and so on, in the order of their numbers."""
        found = [each for each in self.inputs if _number(each.name) is not None]
        return tuple(sorted(found, key=lambda each: _number(each.name) or 0))

    @property
    def version(self) -> int | None:
        """The model's version as Unity reads it; None where there is none."""
        return self._whole("version_number")

    @property
    def memory_size(self) -> int:
        """Numbers that an agent remembers; 0 without memory."""
        return self._whole("memory_size") or 0

    @property
    def continuous_size(self) -> int:
        """Continuous actions of an agent."""
        return self._whole(_SHAPES[0]) or 0

    @property
    def branches(self) -> tuple[int, ...]:
        """Sizes of the discrete branches."""
        found = self.constants.get(_SHAPES[1])
        return () if found is None else tuple(int(each) for each in found.reshape(-1))

    def _whole(self, name: str) -> int | None:
        found = self.constants.get(name)
        return None if found is None or found.size != 1 else int(found.reshape(-1)[0])


def read_model(body: bytes, name: str) -> UnityModel:
    """The model in these bytes. Raises UsageError, saying what they are, when they are none that can be run."""
    try:
        return _read(body, name)
    except UnicodeDecodeError as error:  # of a name in it, wherever it is met first
        raise UsageError(f"{name} is damaged: a name in it is no text ({error}). Export the model again.") from error


def _read(body: bytes, name: str) -> UnityModel:
    model = _parsed(body, name)
    session = _open(body, name)
    initial = {each.name for each in model.graph.initializer}
    inputs = tuple(_tensor(each) for each in model.graph.input if each.name not in initial)
    outputs = tuple(_tensor(each) for each in model.graph.output)
    opsets = [each.version for each in model.opset_import if each.domain in {"", "ai.onnx"}]
    producer = " ".join(_text(part) for part in (model.producer_name, model.producer_version) if part)
    return UnityModel(
        name=name,
        size_bytes=len(body),
        ir_version=model.ir_version,
        opset=max(opsets, default=0),
        producer=producer or "nobody named",
        inputs=inputs,
        outputs=outputs,
        constants=_constants(model, session, inputs),
        session=session,
    )


def _parsed(body: bytes, name: str) -> onnx.ModelProto:
    if not body:
        raise UsageError(f"{name} is empty; expected the bytes of an ONNX model. Export the model again.")
    try:
        model = onnx.load_model_from_string(body)
        onnx.checker.check_model(model)
    except DecodeError as error:
        raise UsageError(f"{name} is no ONNX model: its bytes cannot be read; expected a .onnx file.") from error
    except onnx.checker.ValidationError as error:
        reason = str(error).strip().splitlines()[0]
        raise UsageError(f"{name} is no valid ONNX model: {reason}. Expected one that onnx.checker accepts.") from error
    return model


def _open(body: bytes, name: str) -> Session:
    import onnxruntime  # noqa: PLC0415 - see Session
    from onnxruntime.capi import onnxruntime_pybind11_state as states  # noqa: PLC0415

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    refusals = (states.Fail, states.InvalidArgument, states.InvalidGraph, states.InvalidProtobuf, states.NotImplemented)
    try:
        return onnxruntime.InferenceSession(body, options, providers=["CPUExecutionProvider"])
    except refusals as error:
        raise UsageError(
            f"{name} cannot be run by onnxruntime {onnxruntime.__version__}: {error}. Expected operators that it "
            "knows; the file is damaged, or was written for a newer version.",
        ) from error


def _text(value: str | bytes) -> str:
    """A text of the file; what is no UTF-8 comes as bytes."""
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


def _tensor(value: onnx.ValueInfoProto) -> Tensor:
    kind = value.type.tensor_type
    known = onnx.TensorProto.DataType.items()
    dtype = next((name.lower() for name, number in known if number == kind.elem_type), "unknown")
    shape = tuple(_text(each.dim_param) or each.dim_value for each in kind.shape.dim)
    return Tensor(_text(value.name), {"float": "float32", "double": "float64"}.get(dtype, dtype), shape)


def _number(name: str) -> int | None:
    digits = name.removeprefix(_OBSERVATION)
    return int(digits) if name.startswith(_OBSERVATION) and digits.isdecimal() else None


def _constants(model: onnx.ModelProto, session: Session, inputs: tuple[Tensor, ...]) -> dict[str, Array]:
    """The values of outputs that no input reaches: what Unity may read before it runs the model."""
    reached = {each.name for each in inputs}
    for node in model.graph.node:
        if reached.intersection(node.input) or node.op_type.startswith(("Random", "Multinomial")):
            reached.update(node.output)
    names = [each.name for each in model.graph.output if each.name not in reached]
    if not names:
        return {}
    found = session.run(names, feed_of(inputs, rows=1, rng=np.random.default_rng(0)))
    return dict(zip(names, found, strict=True))


def feed_of(inputs: tuple[Tensor, ...], *, rows: int, rng: np.random.Generator) -> dict[str, Array]:
    """Random inputs: a named first axis gets `rows`, any other named axis 1; masks allow all, memories are zero."""
    feed: dict[str, Array] = {}
    for each in inputs:
        shape = [rows if place == 0 else 1 if isinstance(size, str) else size for place, size in enumerate(each.shape)]
        if each.name == "action_masks":
            values = np.ones(shape)
        elif each.name.startswith("recurrent") or not each.dtype.startswith("float"):
            values = np.zeros(shape)
        else:
            values = rng.normal(0.0, 1.0, shape)
        feed[each.name] = values.astype(each.dtype)
    return feed


def contract_faults(model: UnityModel) -> tuple[str, ...]:
    """What Unity's importer would refuse or stumble over, a sentence each; empty for a model that fits."""
    if model.version is None:
        given = ", ".join(each.name for each in model.outputs)
        return (
            f"there is no constant output version_number (outputs: {given}): Unity takes it for no model of ML-Agents",
        )
    if model.version not in VERSIONS:
        return (f"version_number is {model.version}; expected 2 or 3",)
    if model.version == 2:
        return ("recurrent models of version 2 are refused: export again",) if model.memory_size else ()
    return (*_about_inputs(model), *_about_outputs(model), *_about_constants(model))


def _about_inputs(model: UnityModel) -> list[str]:
    wanted: dict[str, tuple[int | str, ...]] = {}
    if model.branches:
        wanted["action_masks"] = ("batch", sum(model.branches))
    if model.memory_size:
        wanted["recurrent_in"] = ("batch", 1, model.memory_size)
    faults = _compared("input", {each.name: each for each in model.inputs}, wanted, "float32")
    numbers = [_number(each.name) for each in model.observations]
    if not numbers or numbers != list(range(len(numbers))):
        names = ", ".join(each.name for each in model.observations) or "none"
        faults.append(f"observations are {names}; expected obs_0, obs_1 and so on without a gap")
    for each in model.observations:
        if each.dtype != "float32" or len(each.shape) not in {2, 3, 4} or not isinstance(each.shape[0], str):
            faults.append(f"input {each}; expected float32 with a named batch axis and a sensor's 1 to 3 axes")
    known = {*wanted, *(each.name for each in model.observations), *_LEGACY_INPUTS}
    odd = [each.name for each in model.inputs if each.name not in known]
    return faults + [f"input {name} is none that Unity gives" for name in odd]


def _about_outputs(model: UnityModel) -> list[str]:
    outputs = {each.name: each for each in model.outputs}
    actions: dict[str, tuple[int | str, ...]] = {}
    if model.continuous_size:
        size = model.continuous_size
        actions |= {"continuous_actions": ("batch", size), "deterministic_continuous_actions": ("batch", size)}
    faults = _compared("output", outputs, actions, "float32")
    if model.branches:
        count = len(model.branches)
        whole = {"discrete_actions": ("batch", count), "deterministic_discrete_actions": ("batch", count)}
        faults += _compared("output", outputs, whole, "int64")
    if not model.continuous_size and not model.branches:
        faults.append(f"neither {_SHAPES[0]} nor {_SHAPES[1]} says how many actions there are")
    if model.memory_size:
        faults += _compared("output", outputs, {"recurrent_out": ("batch", 1, model.memory_size)}, "float32")
    return faults


def _about_constants(model: UnityModel) -> list[str]:
    faults = []
    if "memory_size" not in model.constants:
        faults.append("there is no constant output memory_size; expected one, 0 without memory")
    if model.memory_size % 2:
        faults.append(f"memory_size is {model.memory_size}; expected an even number")
    dynamic = [each.name for each in model.outputs if each.name in _SHAPES and each.name not in model.constants]
    faults += [f"output {name} depends on the observations; expected a constant" for name in dynamic]
    faults += [
        f"constant {name} is {each.dtype}; expected float32"
        for name, each in model.constants.items()
        if each.dtype != np.float32
    ]
    return faults


def _compared(
    side: str, found: Mapping[str, Tensor], wanted: Mapping[str, tuple[int | str, ...]], dtype: str
) -> list[str]:
    faults = []
    for name, shape in wanted.items():
        each = found.get(name)
        expected = f"{name} {dtype} [{', '.join(map(str, shape))}]"
        if each is None:
            faults.append(f"{side} {name} is missing; expected {expected}")
        elif each.dtype != dtype or not _alike(each.shape, shape):
            faults.append(f"{side} {each}; expected {expected}")
    return faults


def _alike(found: tuple[int | str, ...], wanted: tuple[int | str, ...]) -> bool:
    """Numbers must be equal; what stands for the batch may have any name, but no number."""
    if len(found) != len(wanted):
        return False
    return all(
        isinstance(one, str) if isinstance(other, str) else one == other
        for one, other in zip(found, wanted, strict=True)
    )


@dataclass(frozen=True, slots=True)
class Trial:
    """A run on random input. ranges: least and greatest of each output that is no constant. faults: what was wrong."""

    rows: int
    ranges: Mapping[str, tuple[float, float]]
    faults: tuple[str, ...]


def try_model(model: UnityModel, *, rows: int, seed: int) -> Trial:
    """Runs the model for `rows` agents, again, and with one action of each branch allowed.

    Raises UsageError when onnxruntime cannot run it on inputs of the shapes that it names.
    """
    feed = feed_of(model.inputs, rows=rows, rng=np.random.default_rng(seed))
    found, again = _run(model, feed), _run(model, feed)
    changing = {name: each for name, each in found.items() if name not in model.constants}
    ranges = {name: (float(each.min()), float(each.max())) for name, each in changing.items() if each.size}
    faults = [f"{name} holds values that are not finite" for name, each in found.items() if not np.isfinite(each).all()]
    for name, each in found.items():
        if name.startswith("deterministic") and not np.array_equal(each, again[name]):
            faults.append(f"{name} changes from run to run")
        if name.endswith("_actions"):
            faults += _about_actions(model, name, each, rows)
    if model.branches and "action_masks" in feed and not faults:
        faults += _about_masks(model, feed)
    return Trial(rows, ranges, tuple(faults))


def _run(model: UnityModel, feed: Mapping[str, Array]) -> dict[str, Array]:
    from onnxruntime.capi import onnxruntime_pybind11_state as states  # noqa: PLC0415 - see Session

    names = [each.name for each in model.outputs]
    refusals = (states.Fail, states.InvalidArgument, states.RuntimeException, states.NotImplemented)
    try:
        return dict(zip(names, model.session.run(names, feed), strict=True))
    except refusals as error:
        raise UsageError(f"{model.name} fails on random input of the shapes that it names: {error}") from error


def _about_actions(model: UnityModel, name: str, each: Array, rows: int) -> list[str]:
    is_discrete = "discrete" in name
    size = len(model.branches) if is_discrete else model.continuous_size
    if each.shape != (rows, size):
        return [f"{name} has shape {list(each.shape)} for {rows} agents; expected {[rows, size]}"]
    if is_discrete and ((each < 0).any() or (each >= np.array(model.branches)).any()):
        return [f"{name} is outside of the branches {list(model.branches)}"]
    if not is_discrete and (np.abs(each) > 1.0).any():
        return [f"{name} is outside of -1 to 1"]
    return []


def _about_masks(model: UnityModel, feed: Mapping[str, Array]) -> list[str]:
    """With only the last action of each branch allowed, that is the one to be taken."""
    masks = np.zeros_like(feed["action_masks"])
    masks[:, np.cumsum(model.branches) - 1] = 1.0
    found = _run(model, {**feed, "action_masks": masks})
    names = [name for name in found if name.endswith("discrete_actions")]
    wrong = [name for name in names if (found[name] != np.array(model.branches) - 1).any()]
    return [f"{name} holds actions that action_masks forbids" for name in wrong]
