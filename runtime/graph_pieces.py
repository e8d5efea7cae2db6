"""The two pieces of an acting graph: what acts, and what only its values need; see `runtime/acting/graphs.py`."""

from __future__ import annotations

from runtime.protobuf_bytes import Span, fields

GRAPH_FIELD = 7
"""Number of ModelProto.graph."""


def acting_piece(body: bytes) -> bytes:
    """A model without all but the first piece of its graph; `body` itself where it has but one, or cannot be read."""
    start, graphs = 0, list[Span]()
    try:
        for number, _, (_, end) in fields(body, (0, len(body))):
            if number == GRAPH_FIELD:
                graphs.append((start, end))
            start = end
    except ValueError:
        return body
    for start, end in reversed(graphs[1:]):
        body = body[:start] + body[end:]
    return body
