"""Many arrays as three: a compiled function is entered in a time that grows with the number of its arguments."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import tensorflow as tf

Tensor = Any  # TensorFlow ships no usable types.
Array = npt.NDArray[np.generic]

KINDS: Final = (np.dtype(np.float32), np.dtype(np.int32), np.dtype(np.bool_))


@dataclass(frozen=True, slots=True)
class Packing:
    """Names, types and shapes of arrays that are packed into one vector of each type."""

    layout: tuple[tuple[str, np.dtype[Any], tuple[int, ...]], ...]

    @staticmethod
    def of(arrays: Mapping[str, Array]) -> Packing:
        """The packing of arrays like these. Raises TypeError for one of a type not in KINDS."""
        for name, each in arrays.items():
            if each.dtype not in KINDS:
                raise TypeError(f"{name} is {each.dtype}, expected one of {', '.join(map(str, KINDS))}")
        return Packing(tuple((name, each.dtype, each.shape) for name, each in arrays.items()))

    def pack(self, arrays: Mapping[str, Array]) -> list[Tensor]:
        """One vector for each of KINDS. Raises ValueError for arrays of another layout."""
        if Packing.of(arrays) != self:
            raise ValueError("an update was given arrays of other names, types or shapes than it was compiled for")
        return [
            tf.constant(np.concatenate([np.zeros(0, kind), *(arrays[name].ravel() for name in self._names(kind))]))
            for kind in KINDS
        ]

    def specs(self) -> list[tf.TensorSpec]:
        """What `pack` gives, for the signature of a compiled function."""
        return [
            tf.TensorSpec([sum(math.prod(shape) for _, each, shape in self.layout if each == kind)], kind)
            for kind in KINDS
        ]

    def unpack(self, vectors: list[Tensor]) -> dict[str, Tensor]:
        """The arrays as tensors of their shapes."""
        found: dict[str, Tensor] = {}
        for kind, vector in zip(KINDS, vectors, strict=True):
            start = 0
            for name, each, shape in self.layout:
                if each == kind:
                    size = math.prod(shape)
                    found[name] = tf.reshape(vector[start : start + size], shape)
                    start += size
        return found

    def _names(self, kind: np.dtype[Any]) -> list[str]:
        return [name for name, each, _ in self.layout if each == kind]
