"""How much memory learning will take, said before it is taken.

A run that outgrows its machine is killed without a word, perhaps hours after its start. So what a behavior will need
at most is estimated when it is announced, and refused with numbers when the machine does not have it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from runtime.errors import UsageError
from runtime.experience.brains import BrainParameters
from runtime.learner import BehaviorSettings
from trainers.batches import capacity_for, largest_buffer
from trainers.buffer import part_types
from trainers.layouts import ATTENTION_LAYERS
from trainers.networks import NetworkShape

FIXED_BYTES = 600_000_000
"""The learning library with its compiler, and everything else of the process."""
ROW_OVERHEAD_BYTES = 64
"""Ids, reward and marks of a transition."""
WEIGHT_COPIES = 16
"""Weights, both moments and the gradient, before and after an update; kept policies; the exported graphs."""
PASS_COPIES = 6
"""Float copies of what a layer makes of a minibatch: forwards and backwards, before and after its non-linearity."""
CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryNeed:
    """Bytes that one behavior needs at most.

    row: one agent step; each: with all its copies. experience: all agent steps, those learned from and those that
    arrive meanwhile. network: weights and optimiser. minibatch: what passes through the network at once.
    demonstrations: samples that somebody recorded. is_async: agents act on while an update is made.
    """

    behavior: str
    is_async: bool
    row: int
    each: int
    experience: int
    network: int
    minibatch: int
    demonstrations: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.experience + self.network + self.minibatch + self.demonstrations


def memory_need(
    brain: BrainParameters, settings: BehaviorSettings, *, is_async: bool, demonstrations: int = 0
) -> MemoryNeed:
    """An estimate from shapes and settings. is_async: agents act on while an update is made. demonstrations: bytes."""
    shape, hyper = NetworkShape.of(brain, settings), settings.hyperparameters
    capacity = capacity_for(
        rows=0,
        buffer_size=hyper.buffer_size,
        batch_size=hyper.batch_size,
        epochs=hyper.num_epoch,
        sequence_length=settings.network_settings.memory.sequence_length if settings.network_settings.memory else 0,
        is_async=is_async,
    )
    parts = [math.prod(dimensions) * np.dtype(kind).itemsize for kind, dimensions in part_types(shape)]
    others = shape.mask_size + 4 * (shape.continuous_size + len(shape.branches)) + ROW_OVERHEAD_BYTES
    others += 4 * shape.memory_width
    row = sum(parts) + others
    # Vectors are sorted, padded and handed over as copies; sights are fetched for a minibatch at a time.
    copied = 4 * (row - sum(parts[1:]))
    trunks = 1 if shape.shared_critic else 2
    numbers = sum(math.prod(shape.observations[index]) for index in shape.sights)
    maps = sum(math.prod(one) for image in shape.images for one in shape.convolutions.maps(image))
    for index in shape.sights:
        if len(shape.observations[index]) == 2:
            things = shape.observations[index][0]
            maps += things * ((2 + len(ATTENTION_LAYERS)) * shape.hidden_units + 2 * things)
    layers = shape.vector_size + shape.hidden_units * (shape.num_layers + len(shape.sights))
    # Gates before and after their non-linearities, and what is remembered at each step.
    layers += 5 * shape.memory_size
    signals = sum(each.passing(shape) for each in shape.signals)
    # What follows a transition passes through the signals' networks too.
    seen = numbers + (2 * numbers if shape.sees_next else 0)
    passing = 4 * (2 * seen + PASS_COPIES * (trunks * (maps + layers) + signals))
    each = (2 if is_async else 1) * row + copied
    return MemoryNeed(
        behavior=brain.behavior_name,
        is_async=is_async,
        row=row,
        each=each,
        experience=capacity.rows * each,
        network=4 * WEIGHT_COPIES * shape.full_size,
        minibatch=capacity.minibatch_rows * passing,
        demonstrations=demonstrations,
    )


def refuse_beyond(
    need: MemoryNeed,
    settings: BehaviorSettings,
    *,
    others: Iterable[MemoryNeed],
    memory_bytes: int,
) -> None:
    """Raises UsageError with the numbers when `need` does not fit beside what `others` need already."""
    taken = FIXED_BYTES + sum(each.total for each in others)
    if need.total <= memory_bytes - taken:
        return
    hyper = settings.hyperparameters
    left = memory_bytes - taken - need.network - need.minibatch - need.demonstrations
    shown = f"{_gigabytes(need.demonstrations)} for demonstrations; " if need.demonstrations else ""
    fits = largest_buffer(max(left, 0) // need.each, is_async=need.is_async)
    raise UsageError(
        f"behavior {need.behavior!r} needs about {_gigabytes(need.total)} of memory: {_gigabytes(need.experience)} for "
        f"the agent steps of buffer_size {hyper.buffer_size}, {need.row:,} bytes each; {_gigabytes(need.minibatch)} "
        f"for a minibatch of batch_size {min(hyper.batch_size, hyper.buffer_size)}; {shown}"
        f"{_gigabytes(need.network)} for the network. Expected at most {_gigabytes(max(memory_bytes - taken, 0))}, "
        f"which this machine has ({_gigabytes(memory_bytes)}) beside everything else of learning. "
        f"{_advice(need, fits)}",
    )


def _advice(need: MemoryNeed, fits: int) -> str:
    parts = {
        "experience": need.experience,
        "minibatch": need.minibatch,
        "network": need.network,
        "demonstrations": need.demonstrations,
    }
    largest = max(parts, key=lambda name: parts[name])
    if largest == "experience" and fits > 0:
        return f"Lower buffer_size to {fits} or less, or give the sensors smaller pictures."
    if largest == "demonstrations":
        return "Give it fewer demonstrations in demo_path."
    if largest == "minibatch":
        return "Lower batch_size, or give the sensors smaller pictures."
    return "Lower network_settings.hidden_units, or give the sensors smaller pictures."


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:.2f} GB"


def machine_memory() -> int:
    """Bytes of memory that this machine, or the container around this process, has in all."""
    found = [int(psutil.virtual_memory().total)]
    for path in CGROUP_LIMITS:
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        if text.isdecimal():
            found.append(int(text))
    return min(found)
