"""Replies that look like an earlier one are read without the protocol's library.

From one step to the next a player says the same in other numbers: as many agents, with sensors of the same names, and
mostly nobody's episode ends. So a reply that has been read in full is kept as a template: which of its bytes are
numbers, which are not, and what the rest came to. The next reply of the same length whose other bytes are the same can
only mean the same, and its numbers are picked out of it for all agents at once.

A template is used only after it has read the very reply that it was made of as the library did. Whatever is not plain
is left to the library: other bytes, numbers that are not finite, masks that leave no choice, ids that stand twice. So
errors are those of the long way, word for word.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields

import numpy as np
import numpy.typing as npt

from runtime.experience.brains import (
    AllBrainInfo,
    BrainInfo,
    BrainParameters,
    DecisionRows,
    Floats,
    Ids,
    TerminalRows,
)
from runtime.experience.finite import all_finite
from runtime.experience.masks import find_blocked
from runtime.players.spans import AgentSpans, agents_by_brain
from runtime.protobuf_bytes import Span, read_varint

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.intp]

LENGTHS_MAX = 32
"""Lengths of replies that are remembered."""
TEMPLATES_MAX = 8
"""Templates of one length: in some the first agent's episode ends, in others the second's."""
MISSES_AT_FIRST = 2
MISSES_LATER = 16
"""Replies of a length that are read in full before a template is made of one, while there are few and later on: making
it costs several readings, and where many were of no use, the next one is not likely to be."""

_ANY, _ID, _FLAG = 0x00, 0x80, 0xFE
"""Which bits of a byte are fixed: of a number none, of an id those that tell where it ends, of a flag all but one."""


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """One brain in a template of n agents, those that wait first.

    waiting: how many wait. before: what the reply was read as, of which everything that cannot change is taken.
    floats: bytes of the numbers that are there; filled: which of all `count` numbers those are, None for all of them.
    has: whether rewards are among them, and rewards of groups; columns: where each of these, and each observation,
    begins and ends among the numbers, and its shape. ids: where each agent's id lies, None for one that is
    left out; id_places: all of their bytes. masks: (waiting, mask_size), bytes of flags, None when nobody has a mask.
    """

    brain: BrainParameters
    waiting: int
    before: BrainInfo
    floats: Places
    filled: Places | None
    count: int
    has: tuple[bool, bool]
    columns: tuple[tuple[int, int, tuple[int, ...]], ...]
    ids: tuple[Span | None, ...]
    id_places: Places
    masks: Places | None

    def read(self, body: bytes, raw: Bytes, known: _Known) -> BrainInfo | None:
        """The rows, or None for what the library must see."""
        numbers = self._numbers(raw)
        if not all_finite(numbers):
            return None
        ids = self._ids(body, raw, known)
        if ids is None:
            return None
        masks = self.before.decisions.action_masks
        if self.masks is not None:
            forbidden = raw.take(self.masks)
            masks = None
            if forbidden.any():
                masks = forbidden == 0
                if find_blocked(masks, self.brain.action_spec.discrete_branches) is not None:
                    return None
        return self._info(ids, numbers, masks)

    def _numbers(self, raw: Bytes) -> Floats:
        found: Floats = raw.take(self.floats).view("<f4").astype(np.float32, copy=False)
        if self.filled is None:
            return found
        numbers = np.zeros(self.count, np.float32)
        numbers[self.filled] = found
        return numbers

    def _ids(self, body: bytes, raw: Bytes, known: _Known) -> Ids | None:
        told = raw.take(self.id_places).tobytes()
        if told != known.told or len(known.ids) != len(self.ids):
            values = [0 if span is None else _signed(read_varint(body, *span)[0]) for span in self.ids]
            waiting = values[: self.waiting]
            if len(set(waiting)) != len(waiting):
                return None
            known.told, known.ids = told, np.array(values, np.int64)
        return known.ids

    def _info(self, ids: Ids, numbers: Floats, masks: npt.NDArray[np.bool_] | None) -> BrainInfo:
        cut, n, before, ended = self.waiting, len(ids), self.before.decisions, self.before.terminals
        seen = [numbers[start:end].reshape(shape) for start, end, shape in self.columns]
        rewards = seen.pop(0) if self.has[0] else None
        group_rewards = seen.pop(0) if self.has[1] else None
        decisions, terminals = before, ended
        if cut == n:
            decisions = DecisionRows(
                ids,
                tuple(seen),
                before.rewards if rewards is None else rewards,
                masks,
                before.group_ids,
                before.group_rewards if group_rewards is None else group_rewards,
            )
        elif cut:
            decisions = DecisionRows(
                ids[:cut],
                tuple([each[:cut] for each in seen]),
                before.rewards if rewards is None else rewards[:cut],
                masks,
                before.group_ids,
                before.group_rewards if group_rewards is None else group_rewards[:cut],
            )
        if n > cut:
            terminals = TerminalRows(
                ids[cut:],
                tuple([each[cut:] for each in seen]),
                ended.rewards if rewards is None else rewards[cut:],
                ended.interrupted,
                ended.group_ids,
                ended.group_rewards if group_rewards is None else group_rewards[cut:],
            )
        return BrainInfo(decisions, terminals, self.before.worker_id)


def _columns(rows: int, shapes: Iterable[tuple[int, ...]]) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """Where columns of `rows` lie, one after the other, and their shapes."""
    at = 0
    for shape in shapes:
        end = at + rows * math.prod(shape)
        yield at, end, (rows, *shape)
        at = end


def _signed(value: int) -> int:
    """The int32 that a varint stands for: of longer ones the library keeps the lowest 32 bits."""
    value &= (1 << 32) - 1
    return value - (1 << 32) if value >> 31 else value


@dataclass(slots=True)
class _Known:
    """The ids of one brain's agents as they were told last, and their bytes."""

    told: bytes = b""
    ids: Ids = field(default_factory=lambda: np.zeros(0, np.int64))


class ReplyTemplate:
    """One reply, and all that mean the same but for their numbers."""

    def __init__(self, body: bytes, infos: AllBrainInfo, brains: Mapping[str, BrainParameters]) -> None:
        """infos: what the reply was read as, a brain for each of `brains`.

        Raises ValueError for a reply that is not encoded plainly, or that has something else than numbers in it.
        """
        # Asked first: messages with pictures are long, and come again and again.
        if any(
            _shows_pictures(brains[name]) for name, info in infos.items() if len(info.decisions) + len(info.terminals)
        ):
            raise ValueError("pictures, which may lie in another order on the wire")
        found = agents_by_brain(body)
        free = np.full(len(body), 0xFF, np.uint8)
        self._infos = dict(infos)
        self._parts: dict[str, tuple[_Part, _Known]] = {}
        for name, brain in brains.items():
            if found.get(name):
                self._parts[name] = (_part(brain, infos[name], found[name], free), _Known())
        self._free = free
        self._fixed = (np.frombuffer(body, np.uint8) & free).tobytes()
        again = self.read(body)
        if again is None or not _same(again, infos):
            raise ValueError("read in another way than the library reads it")

    def read(self, body: bytes) -> AllBrainInfo | None:
        """The rows of a reply of the same length; None when it means something else, or needs the long way."""
        raw = np.frombuffer(body, np.uint8)
        if (raw & self._free).tobytes() != self._fixed:
            return None
        infos = dict(self._infos)
        for name, (part, known) in self._parts.items():
            info = part.read(body, raw, known)
            if info is None:
                return None
            infos[name] = info
        return infos


@dataclass(slots=True)
class _Length:
    """What is known of replies of one length; the template that was of use last stands first."""

    misses_left: int = MISSES_AT_FIRST
    templates: list[ReplyTemplate] = field(default_factory=list)


class LookAlikes:
    """The templates of one player's replies."""

    def __init__(self) -> None:
        self._lengths: dict[int, _Length] = {}

    def read(self, body: bytes) -> AllBrainInfo | None:
        """The rows of every known brain, or None: then the library must read it, and `learn` be told."""
        known = self._lengths.get(len(body))
        if known is None:
            return None
        for place, template in enumerate(known.templates):
            infos = template.read(body)
            if infos is not None:
                if place:
                    known.templates.insert(0, known.templates.pop(place))
                return infos
        return None

    def learn(self, body: bytes, infos: AllBrainInfo, brains: Mapping[str, BrainParameters]) -> None:
        """Takes note of a reply that holds rows alone, and what it was read as."""
        known = self._lengths.get(len(body))
        if known is None:
            if len(self._lengths) >= LENGTHS_MAX:
                del self._lengths[next(iter(self._lengths))]
            known = self._lengths[len(body)] = _Length()
        known.misses_left -= 1
        if known.misses_left > 0:
            return
        known.misses_left = MISSES_LATER
        try:
            template = ReplyTemplate(body, infos, brains)
        except ValueError:
            return
        known.templates = [template, *known.templates][:TEMPLATES_MAX]
        if len(known.templates) < TEMPLATES_MAX:
            known.misses_left = MISSES_AT_FIRST

    def forget(self) -> None:
        """What is known of the player's brains has changed."""
        self._lengths.clear()


def _part(brain: BrainParameters, info: BrainInfo, agents: Sequence[AgentSpans], free: Bytes) -> _Part:
    """The part of a template that one brain is. Notes in `free` which bits may change."""
    both = [each for each in agents if not each.done] + [each for each in agents if each.done]
    waiting = sum(not each.done for each in agents)
    has = any(each.reward for each in agents), any(each.group_reward for each in agents)
    spans: list[Span | None] = []
    sizes: list[int] = []
    for is_there, field_name in zip(has, ("reward", "group_reward"), strict=True):
        if is_there:
            spans += [getattr(each, field_name) for each in both]
            sizes += [1] * len(both)
    for index, spec in enumerate(brain.observation_specs):
        size = math.prod(spec.shape)
        for each in both:
            if len(each.observations) != len(brain.observation_specs):
                raise ValueError("another number of observations")
            span = each.observations[index]
            if (0 if span is None else span[1] - span[0]) != 4 * size:
                raise ValueError("another number of numbers")
            spans.append(span)
            sizes.append(size)
    known = [span for span in spans if span is not None]
    floats = _places(known)
    free[floats] = _ANY
    gaps = np.repeat([span is not None for span in spans], sizes)
    told = _places([each.id for each in both if each.id is not None])
    free[told] = _ID
    free[_places([each.mask for each in both if each.mask is not None])] = _FLAG
    return _Part(
        brain=brain,
        waiting=waiting,
        before=info,
        floats=floats,
        filled=None if gaps.all() else np.flatnonzero(gaps),
        count=len(gaps),
        has=has,
        columns=tuple(_columns(len(both), [()] * sum(has) + [spec.shape for spec in brain.observation_specs])),
        ids=tuple([each.id for each in both]),
        id_places=told,
        masks=_mask_places(brain, both[:waiting]),
    )


def _shows_pictures(brain: BrainParameters) -> bool:
    return any(spec.dtype != "float32" or len(spec.shape) == 3 for spec in brain.observation_specs)


def _mask_places(brain: BrainParameters, agents: Sequence[AgentSpans]) -> Places | None:
    """intp (n, mask_size): the bytes of every agent's mask; None when nobody has one."""
    masks = [each.mask for each in agents if each.mask is not None]
    if not masks:
        return None
    size = brain.action_spec.mask_size
    if len(masks) != len(agents) or any(end - start != size for start, end in masks):
        raise ValueError("masks of other lengths")
    return _places(masks).reshape(len(masks), size)


def _places(spans: Iterable[Span]) -> Places:
    """intp: every byte of these spans, in order."""
    return np.concatenate([np.zeros(0, np.intp), *(np.arange(*span, dtype=np.intp) for span in spans)])


def _same(one: AllBrainInfo, other: AllBrainInfo) -> bool:
    """Whether two readings are equal to the last bit."""
    if one.keys() != other.keys():
        return False
    return all(
        _same_rows(one[name].decisions, other[name].decisions)
        and _same_rows(one[name].terminals, other[name].terminals)
        for name in one
    )


def _same_rows(one: DecisionRows | TerminalRows, other: DecisionRows | TerminalRows) -> bool:
    for each in fields(one):
        mine, its = getattr(one, each.name), getattr(other, each.name)
        pairs = zip(mine, its, strict=True) if isinstance(mine, tuple) else [(mine, its)]
        for left, right in pairs:
            if (left is None) != (right is None):
                return False
            if left is not None and (left.dtype, left.shape, left.tobytes()) != (
                right.dtype,
                right.shape,
                right.tobytes(),
            ):
                return False
    return True
