"""Two messages of a trainer side by side: whether they mean the same, and if not, where they begin to differ."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import DecodeError, Message

from fakeunity import side_channels
from fakeunity.errors import TrainerMistakeError
from runtime.players.wire import communicator_gen1_pb2 as gen1
from runtime.players.wire import communicator_pb2 as pb

DIFFERENCES_MAX = 10
TEXT_MAX = 4000
_ACTION_NUMBERS = (
    "vector_actions",
    "vector_actions_deprecated",
    "continuous_actions",
    "discrete_actions",
    "memories",
)


def differences(recorded: bytes, said: bytes, *, generation: int, is_tolerant: bool = False) -> list[str]:
    """Where what was said differs from what was recorded, a line per place; empty when both mean the same.

    is_tolerant: values of actions and seeds may differ, their number may not.
    """
    if recorded == said:
        return []
    kind = _kind(generation)
    try:
        ours, theirs = kind.FromString(recorded), kind.FromString(said)
    except DecodeError as error:
        return [f"the bytes differ, and one of them is no {kind.DESCRIPTOR.name}: {error}"]
    if is_tolerant:
        _forget(ours)
        _forget(theirs)
    found = itertools.chain(_between(ours, theirs, ""), _between_channels(ours, theirs, is_tolerant=is_tolerant))
    return list(itertools.islice(found, DIFFERENCES_MAX))


def text_of(body: bytes, *, generation: int) -> str:
    """A message for people, cut at some length."""
    try:
        text = text_format.MessageToString(_kind(generation).FromString(body))
    except DecodeError:
        text = f"{len(body)} bytes: {body[:200].hex(' ')}"
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}\n... {len(text) - TEXT_MAX} characters more"


def _kind(generation: int) -> type[Message]:
    return gen1.UnityMessage if generation == 1 else pb.UnityMessageProto


def _forget(message: Any) -> None:  # `Any`: a message of either generation, with the same names where it matters
    """Sets seeds and the values of actions to nothing; the number of actions stays."""
    if message.unity_input.HasField("rl_initialization_input"):
        message.unity_input.rl_initialization_input.seed = 0
    for actions in message.unity_input.rl_input.agent_actions.values():
        for row in actions.value:
            row.value = 0.0
            for name in _ACTION_NUMBERS:
                numbers = getattr(row, name, None)
                if numbers:
                    numbers[:] = [0] * len(numbers)


def _between(ours: Message, theirs: Message, path: str) -> Iterator[str]:
    for field in ours.DESCRIPTOR.fields:
        name = f"{path}.{field.name}" if path else field.name
        if name == "unity_input.rl_input.side_channel":
            continue  # looked into elsewhere
        first, second = getattr(ours, field.name), getattr(theirs, field.name)
        if field.is_repeated:
            yield from _between_many(field, first, second, name)
        elif field.message_type is None:
            if not _is_same(first, second):
                yield f"{name}: recorded {first!r}, the trainer says {second!r}"
        elif ours.HasField(field.name) != theirs.HasField(field.name):
            has = "the trainer leaves it out" if ours.HasField(field.name) else "the trainer says it, unlike then"
            yield f"{name}: {has}"
        else:
            yield from _between(first, second, name)


def _between_many(field: Any, first: Any, second: Any, name: str) -> Iterator[str]:  # `Any`: two descriptor classes
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        for key in sorted(set(first) ^ set(second)):
            yield f"{name}[{key!r}]: {'the trainer leaves it out' if key in first else 'was not there'}"
        pairs = [(f"{name}[{key!r}]", first[key], second[key]) for key in sorted(set(first) & set(second))]
        is_message = field.message_type.fields_by_name["value"].message_type is not None
    else:
        if len(first) != len(second):
            yield f"{name}: recorded {len(first)} of them, the trainer says {len(second)}"
        pairs = [(f"{name}[{at}]", *pair) for at, pair in enumerate(zip(first, second, strict=False))]
        is_message = field.message_type is not None
    for place, one, other in pairs:
        if is_message:
            yield from _between(one, other, place)
        elif not _is_same(one, other):
            yield f"{place}: recorded {one!r}, the trainer says {other!r}"


def _is_same(one: object, other: object) -> bool:
    return one == other or (one != one and other != other)  # noqa: PLR0124 - two numbers that are none are the same


def _between_channels(ours: Any, theirs: Any, *, is_tolerant: bool) -> Iterator[str]:
    """Differences of the side channels, message by message; GEN1 has none."""
    containers = [getattr(each.unity_input.rl_input, "side_channel", b"") for each in (ours, theirs)]
    name = "unity_input.rl_input.side_channel"
    if containers[0] == containers[1]:
        return
    try:
        first, second = (list(map(_heard, side_channels.messages(container))) for container in containers)
    except TrainerMistakeError as error:
        yield f"{name}: the bytes differ, and one of them cannot be read: {error}"
        return
    if len(first) != len(second):
        yield f"{name}: recorded {len(first)} messages, the trainer says {len(second)}"
    for at, (one, other) in enumerate(zip(first, second, strict=False)):
        pair = tuple(map(_without_seed, (one, other))) if is_tolerant else (one, other)
        if pair[0] != pair[1]:
            yield f"{name}[{at}]: recorded {one}, the trainer says {other}"


_Heard = tuple[str, object]


def _heard(message: tuple[object, bytes]) -> _Heard:
    channel, payload = message
    if channel == side_channels.ENVIRONMENT_PARAMETERS:
        key, value = side_channels.environment_parameter(payload)
        return f"environment parameter {key!r}", value
    return f"channel {channel}", payload.hex(" ")


def _without_seed(heard: _Heard) -> _Heard:
    name, value = heard
    return name, replace(value, seed=0) if isinstance(value, side_channels.Sampler) else value
