"""The safetensors layout: named arrays in one file that any tool can read and nothing in it can run.

Eight bytes of header length, a JSON header (dtype, shape and place of each array), then the arrays, little-endian.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]

_CODES = {
    "F64": "<f8",
    "F32": "<f4",
    "I64": "<i8",
    "I32": "<i4",
    "U8": "|u1",
    "BOOL": "|b1",
}
_CODE_OF = {np.dtype(each): code for code, each in _CODES.items()}


def encode_arrays(arrays: Mapping[str, Array]) -> list[bytes | memoryview]:
    """The file content in pieces, names in sorted order: equal arrays give equal bytes.

    The arrays are not copied: images may be most of the machine's memory.
    """
    header: dict[str, object] = {}
    parts, start = [], 0
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name]).astype(arrays[name].dtype.newbyteorder("<"), copy=False)
        header[name] = {
            "dtype": _CODE_OF[array.dtype],
            "shape": list(arrays[name].shape),
            "data_offsets": [start, start + array.nbytes],
        }
        parts.append(array.reshape(-1).view(np.uint8).data)
        start += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return [len(text).to_bytes(8, "little"), text, *parts]


def decode_arrays(content: bytes) -> dict[str, Array]:
    """The arrays of a file, read-only. Raises ValueError for anything that is not such a file."""
    size = int.from_bytes(content[:8], "little")
    if len(content) < 8 or size > len(content) - 8:
        raise ValueError(f"a header of {size} bytes in a file of {len(content)}")
    try:
        header = json.loads(content[8 : 8 + size])
        data = memoryview(content)[8 + size :]
        return {name: _array(data, entry) for name, entry in header.items()}
    except (KeyError, TypeError, AttributeError, UnicodeDecodeError) as error:
        raise ValueError(f"a header that does not describe arrays ({error})") from error


def _array(data: memoryview, entry: Mapping[str, object]) -> Array:
    offsets, shape = entry["data_offsets"], entry["shape"]
    if not isinstance(offsets, list) or not isinstance(shape, list):
        raise TypeError("offsets and shape that are not lists")
    start, end = offsets
    return np.frombuffer(data[start:end], _CODES[str(entry["dtype"])]).reshape(shape)
