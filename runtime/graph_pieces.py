"""The two pieces of an acting graph: what acts, and what only its values need; see `runtime/acting/graphs.py`."""

from __future__ import annotations

from runtime.protobuf_bytes import fields

GRAPH_FIELD = 7
"""Number of ModelProto.graph."""


def acting_piece(body: bytes) -> bytes:
    """A model without all but the first piece of its graph; `body` itself where it has but one, or cannot be read."""
    start, kept, has_graph, leaves_out = 0, list[bytes](), False, False
    try:
        for number, _, (_, end) in fields(body, (0, len(body))):
            if number != GRAPH_FIELD or not has_graph:
                kept.append(body[start:end])
            else:
                leaves_out = True
            start, has_graph = end, has_graph or number == GRAPH_FIELD
    except ValueError:
        return body
    return b"".join(kept) if leaves_out else body
