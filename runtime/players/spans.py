"""Where the fields of a UnityMessageProto lie in its bytes: a reader of places, not of values.

Only the plainest encoding is read: each field once, packed where it may be. Anything else is a ValueError, and somebody
else's business.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from runtime.protobuf_bytes import FIXED_32, LENGTH_DELIMITED, VARINT, Span, fields, read_varint


@dataclass(slots=True)
class AgentSpans:
    """Where the contents of one AgentInfoProto lie; None for fields that are left out.

    observations: the numbers of each, or None for one without packed floats.
    """

    done: bool = False
    reward: Span | None = None
    group_reward: Span | None = None
    id: Span | None = None
    mask: Span | None = None
    observations: list[Span | None] = field(default_factory=list)


def agents_by_brain(body: bytes) -> dict[str, list[AgentSpans]]:
    """The agents of every brain in a message of a player. Raises ValueError for anything but rows, plainly encoded."""
    output = _only(body, (0, len(body)), 2)
    rows = _only(body, output, 1) if output is not None else None
    found: dict[str, list[AgentSpans]] = {}
    if output is not None and any(number != 1 for number, _, _ in fields(body, output)):
        raise ValueError("more than rows")
    for number, kind, entry in fields(body, rows) if rows is not None else ():
        if number != 2 or kind != LENGTH_DELIMITED:
            raise ValueError("more than rows of agents")
        key, agents = _only(body, entry, 1), _only(body, entry, 2)
        name = "" if key is None else body[key[0] : key[1]].decode()
        if name in found:
            raise ValueError("a brain twice")
        found[name] = [] if agents is None else [_agent(body, span) for _, _, span in fields(body, agents)]
    return found


def _only(body: bytes, within: Span, wanted: int) -> Span | None:
    """The one length-delimited field of that number; None where it is left out."""
    found = [(kind, span) for number, kind, span in fields(body, within) if number == wanted]
    if len(found) > 1 or any(kind != LENGTH_DELIMITED for kind, _ in found):
        raise ValueError(f"field {wanted} in parts")
    return found[0][1] if found else None


_AGENT = {7: ("reward", FIXED_32), 15: ("group_reward", FIXED_32), 10: ("id", VARINT), 11: ("mask", LENGTH_DELIMITED)}
_DONE, _OBSERVATION = 8, 13


def _agent(body: bytes, within: Span) -> AgentSpans:
    agent, met = AgentSpans(), set[int]()
    for number, kind, span in fields(body, within):
        if number == _OBSERVATION:
            agent.observations.append(_floats(body, span))
            continue
        if number in met:
            raise ValueError("a field twice")
        met.add(number)
        if number == _DONE:
            agent.done = read_varint(body, *span)[0] != 0
        elif number in _AGENT:
            name, expected = _AGENT[number]
            if kind != expected:
                raise ValueError(f"{name} of wire type {kind}")
            setattr(agent, name, span)
    return agent


def _floats(body: bytes, observation: Span) -> Span | None:
    holder = _only(body, observation, 4)
    return None if holder is None else _only(body, holder, 1)
