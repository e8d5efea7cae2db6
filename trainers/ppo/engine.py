"""The door to TensorFlow: nothing imports it before this door is opened, on the learner thread."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainers.batches import Capacity
    from trainers.networks import NetworkShape
    from trainers.ppo.staged import StagedUpdate
    from trainers.ppo.update import PPOUpdate

WIDE_FROM = 250_000
"""Weights from which on a second thread is of use."""


def threads_for(shape: NetworkShape, *, is_async: bool) -> int:
    """Threads of TensorFlow for this network: two for a wide one whose players wait for its update, if there are cores.

    A second thread halves the time of such an update and changes no bit of what it comes to, which is tested. With
    images it does change bits, and where it does not get a core of its own, it doubles the time.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    is_wide = shape.size >= WIDE_FROM and not shape.sights
    return 2 if is_wide and not is_async and cores > 1 else 1


def update_for(shape: NetworkShape, capacity: Capacity, *, threads: int = 1) -> PPOUpdate | StagedUpdate:
    """The update for these sizes, compiled when it first runs; the same object for the same sizes.

    The first call loads TensorFlow, which takes seconds, and fixes its threads.
    """
    load_tensorflow(threads)
    return _update(shape, capacity)


@lru_cache(maxsize=32)
def _update(shape: NetworkShape, capacity: Capacity) -> PPOUpdate | StagedUpdate:
    # Both load TensorFlow, and not before it is needed.
    from trainers.ppo.recurrent import RecurrentUpdate  # noqa: PLC0415
    from trainers.ppo.staged import StagedUpdate  # noqa: PLC0415
    from trainers.ppo.update import PPOUpdate  # noqa: PLC0415

    if shape.sights:
        return StagedUpdate(shape, capacity)
    return RecurrentUpdate(shape, capacity) if shape.memory_size else PPOUpdate(shape, capacity)


def load_tensorflow(threads: int = 1) -> None:
    """Loads TensorFlow with pinned threads and deterministic operators; later calls change nothing."""
    # Both are read when the library loads: no lines about CPU features, no rounding that depends on them.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    with warnings.catch_warnings(), _without_keras():
        warnings.simplefilter("ignore")  # those of the library's own imports
        import tensorflow as tf  # noqa: PLC0415 - as above
    # Only before the first operation: an embedding program that uses TensorFlow itself has chosen already.
    with contextlib.suppress(RuntimeError):
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.experimental.enable_op_determinism()


@contextlib.contextmanager
def _without_keras() -> Iterator[None]:
    """While TensorFlow loads: it would load Keras for the sake of saved models, 500 modules and 20 MB for nothing.

    TensorFlow does without where it is not installed. Whoever asks for it later gets it.
    """
    is_there = "keras" in sys.modules
    if not is_there:
        sys.modules["keras"] = None  # type: ignore[assignment] # says that it cannot be imported
    try:
        yield
    finally:
        if not is_there:
            del sys.modules["keras"]
