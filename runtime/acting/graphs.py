"""The acting graph: one ONNX file per policy version, loaded, checked and run.

Inputs `obs_0` … `obs_{k-1}`, float32 [batch, *shape], in the order of the brain's observation specs. Outputs, those
that apply: `mean` [batch, c] and the constant `log_std` [c]; `logits` [batch, sum of branch sizes], raw; `value`
[batch, streams]. A policy with memory has the input `memory_in` [batch, w], the output `memory` [batch, w], to be given
with the agent's next observation, and the constant `sequence_length` [1]: after so many steps a training sequence ends.

The bytes are a ModelProto. Its graph may come in two pieces (protobuf joins them): the first acts, the second has what
only `value` needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from runtime.errors import InternalError, ShapeError
from runtime.experience.brains import BrainParameters, Floats
from runtime.graph_pieces import acting_piece

# onnxruntime ships no types: sessions are Any. It is imported when the first graph is loaded (0.2 s).
Session = Any

OPTIMISED_FROM_BYTES = 1 << 19
"""From here on, and with convolutions, optimising a graph pays. A smaller one runs as fast as it was written, and
optimising it takes longer than all its runs save until the next version comes."""

_CONSTANTS = ("log_std", "sequence_length")
_OUTPUT_RANKS = {"mean": 2, "log_std": 1, "logits": 2, "value": 2, "memory": 2, "sequence_length": 1}
_MEMORY_IN = "memory_in"
_PROBE_ROWS = 33
_PROBE_SIZES = (1, 2, 3, 7, 15, 32)


class Heads(NamedTuple):
    """What a graph says about n rows: mean float32 (n, c), logits (n, sum of branches), value (n, streams), or None.

    memory: float32 (n, w), what each agent remembers from now on.
    """

    mean: Floats | None
    logits: Floats | None
    value: Floats | None
    memory: Floats | None = None


@dataclass(frozen=True, slots=True)
class GraphShape:
    """Shapes of a graph without the batch axis; sizes are 0 for a head that it lacks."""

    observations: tuple[tuple[int, ...], ...]
    continuous_size: int
    logits_size: int
    streams: int
    memory_size: int = 0

    def __str__(self) -> str:
        taken = ", ".join(map(str, self.observations)) or "none"
        return f"observations {taken}; continuous actions {self.continuous_size}; logits {self.logits_size}"


class ActingGraph:
    """A graph ready to run on one thread.

    Raises InternalError when the bytes are no graph that onnxruntime loads, ShapeError when its inputs or outputs are
    not those of an acting graph. name: what errors call it. gives_values: False leaves the values out, and with them
    the critic, which is half of most graphs; its weights are not even loaded where they are a piece of their own.
    """

    def __init__(self, body: bytes, *, name: str, gives_values: bool = True) -> None:
        self.name = name
        self.gives_values = gives_values
        self.session = _open_session(body if gives_values else acting_piece(body), name)
        self.shape = _read_shape(self.session, name)
        self._inputs = [f"obs_{index}" for index in range(len(self.shape.observations))]
        present = [each.name for each in self.session.get_outputs()]
        unwanted = _CONSTANTS if gives_values else (*_CONSTANTS, "value")
        self._outputs = [each for each in present if each not in unwanted]
        # Leaving out what nobody asks for costs more than computing a constant, and less than computing a critic.
        self._options = _run_options(needed_alone="value" in present and not gives_values)
        # Of a head that is not there the place is behind the last one.
        self._places = [self._outputs.index(each) if each in self._outputs else -1 for each in Heads._fields]
        # A constant of the graph: read once instead of with every run.
        self.log_std: Floats | None = None
        if "log_std" in present:
            self.log_std = self.session.run(["log_std"], _probe(self.shape, 1))[0]
            if not np.isfinite(self.log_std).all():
                raise InternalError(f"{name} has a log_std that is not finite: {self.log_std!r}; training has diverged")
        self.std = None if self.log_std is None else np.exp(self.log_std)
        self.sequence_length = 0
        if "sequence_length" in present:
            (length,) = self.session.run(["sequence_length"], _probe(self.shape, 1))
            self.sequence_length = int(length[0])

    def check_fits(self, brain: BrainParameters) -> None:
        """Raises ShapeError, naming both, unless the graph takes the brain's observations and gives its actions."""
        wanted = GraphShape(
            tuple(each.shape for each in brain.observation_specs),
            brain.action_spec.continuous_size,
            brain.action_spec.mask_size,
            self.shape.streams,
            self.shape.memory_size,
        )
        if wanted != self.shape:
            raise ShapeError(
                f"{self.name} does not fit brain {brain.brain_name!r}: the graph has {self.shape}; "
                f"the brain has {wanted}. A policy acts only for the brain that it was made for; start a new run for a "
                "changed one."
            )

    def run(self, observations: Sequence[Floats], memory: Floats | None = None) -> Heads:
        """The heads of all rows, in one call. memory: float32 (n, w), for a policy that has one."""
        feed = dict(zip(self._inputs, observations, strict=True))
        if memory is not None:
            feed[_MEMORY_IN] = memory
        results = self.session.run(self._outputs, feed, self._options)
        results.append(None)
        mean, logits, value, after = self._places
        return Heads(results[mean], results[logits], results[value], results[after])

    def run_row_by_row(self, observations: Sequence[Floats], memory: Floats | None = None) -> Heads:
        """The same, one row per call: for a graph whose rows depend on their company."""
        rows = [
            self.run([each[row : row + 1] for each in observations], None if memory is None else memory[row : row + 1])
            for row in range(len(observations[0]))
        ]
        return Heads(*(None if parts[0] is None else np.concatenate(parts) for parts in zip(*rows, strict=True)))

    def is_row_independent(self) -> bool:
        """True when rows have the same bits in every batch tried; see `check_row_independence`."""
        return check_row_independence(self.session, self.shape)


def check_row_independence(session: Session, shape: GraphShape) -> bool:
    """True when a row's outputs have the same bits alone, in odd batches, and in a batch of 33.

    That is a property of operators, machine and library together, so the actual graph is tried where it acts. Each
    size is tried at the start, in the middle and at the end: 19 runs.
    """
    outputs = [each.name for each in session.get_outputs() if each.name not in _CONSTANTS]
    probe = _probe(shape, _PROBE_ROWS)
    whole = session.run(outputs, probe)
    for size in _PROBE_SIZES:
        for start in (0, (_PROBE_ROWS - size) // 2, _PROBE_ROWS - size):
            chosen = slice(start, start + size)
            part = session.run(outputs, {name: rows[chosen] for name, rows in probe.items()})
            if any(few.tobytes() != many[chosen].tobytes() for few, many in zip(part, whole, strict=True)):
                return False
    return True


def _probe(shape: GraphShape, rows: int) -> dict[str, Floats]:
    """Observations to try a graph with: of both signs and several magnitudes, the same every time."""
    rng = np.random.default_rng(20250101)
    sizes = {f"obs_{index}": each for index, each in enumerate(shape.observations)}
    if shape.memory_size:
        sizes[_MEMORY_IN] = (shape.memory_size,)
    return {name: (3 * rng.standard_normal((rows, *each))).astype(np.float32) for name, each in sizes.items()}


def _open_session(body: bytes, name: str) -> Session:
    import onnxruntime  # noqa: PLC0415 - see Session
    from onnxruntime.capi import onnxruntime_pybind11_state as states  # noqa: PLC0415

    options = onnxruntime.SessionOptions()
    # One thread: work split over threads gives a row other bits, and players want the other cores.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 3
    if len(body) < OPTIMISED_FROM_BYTES and b"Conv" not in body:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    refusals = (states.Fail, states.InvalidArgument, states.InvalidGraph, states.InvalidProtobuf, states.NotImplemented)
    try:
        return onnxruntime.InferenceSession(body, options, providers=["CPUExecutionProvider"])
    except refusals as error:
        raise InternalError(
            f"{name} is no graph that onnxruntime {onnxruntime.__version__} loads ({error}); expected the bytes "
            "of an ONNX file. The file is damaged, or was written for a newer onnxruntime."
        ) from error


@cache
def _run_options(*, needed_alone: bool) -> Any:
    """Options of runs, made once; needed_alone: they compute what is asked for and nothing else."""
    import onnxruntime  # noqa: PLC0415 - see Session

    options = onnxruntime.RunOptions()
    options.only_execute_path_to_fetches = needed_alone
    return options


def _read_shape(session: Session, name: str) -> GraphShape:
    """Shapes of the graph. Raises ShapeError when it is no acting graph."""
    inputs = {each.name: each for each in session.get_inputs()}
    names = [f"obs_{index}" for index in range(len(inputs.keys() - {_MEMORY_IN}))]
    outputs = {each.name: each for each in session.get_outputs()}
    unknown = sorted(set(outputs) - set(_OUTPUT_RANKS))
    is_odd_head = ("mean" in outputs) != ("log_std" in outputs) or not outputs.keys() & {"mean", "logits"}
    is_odd_memory = len({_MEMORY_IN in inputs, "memory" in outputs, "sequence_length" in outputs}) > 1
    if sorted(inputs.keys() - {_MEMORY_IN}) != sorted(names) or not names or unknown or is_odd_head or is_odd_memory:
        raise ShapeError(
            f"{name} is no acting graph: it has inputs {sorted(inputs)} and outputs {sorted(outputs)}; expected inputs "
            "obs_0, obs_1, … and outputs mean with log_std, or logits, or both, and value if it has one; with memory "
            "the input memory_in and the outputs memory and sequence_length"
        )
    values = {each: _sizes(node, name, leading=each not in _CONSTANTS) for each, node in (inputs | outputs).items()}
    for each, rank in _OUTPUT_RANKS.items():
        if each in values and len(values[each]) + (each not in _CONSTANTS) != rank:
            raise ShapeError(f"output {each} of {name} has shape {outputs[each].shape}; expected {rank} axes")
    mean, spread = values.get("mean", (0,)), values.get("log_std", (0,))
    if mean != spread:
        raise ShapeError(f"{name} has a mean of {mean[0]} numbers and a log_std of {spread[0]}; expected as many")
    memory = values.get("memory", (0,))
    if memory != values.get(_MEMORY_IN, (0,)):
        raise ShapeError(f"{name} takes a memory of shape {values[_MEMORY_IN]} and gives {memory}; expected the same")
    return GraphShape(
        tuple(values[each] for each in names),
        mean[0],
        values.get("logits", (0,))[0],
        values.get("value", (0,))[0],
        memory[0],
    )


def _sizes(node: Any, name: str, *, leading: bool) -> tuple[int, ...]:  # a NodeArg of onnxruntime, untyped
    """Fixed sizes of an input or output, without the batch axis. Raises ShapeError when one is not fixed."""
    sizes = node.shape[1:] if leading else node.shape
    if node.type != "tensor(float)" or not all(isinstance(each, int) for each in sizes):
        raise ShapeError(
            f"{node.name} of {name} is {node.type} with shape {node.shape}; expected float32 and fixed sizes "
            "after the batch"
        )
    return tuple(sizes)
