"""A player's UnityMessage of API-8 to API-10 -> experience in the shape of the later generation.

An agent that is done says two things in one row: how its episode ended, and how the next one begins. They become a
terminal row, whose observation is the last one that the agent sent before, and a decision row with the new observation
and reward 0. An agent's first row since a reset ends nothing, whatever it says. If a message is refused, nothing has
changed: `KnownGen1` is a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from google.protobuf.message import DecodeError

from runtime.experience.brains import (
    AllBrainInfo,
    Bools,
    BrainInfo,
    BrainParameters,
    DecisionRows,
    EnvId,
    Floats,
    Ids,
    Observation,
    TerminalRows,
    empty_rows,
)
from runtime.players.guards import Guard
from runtime.players.links import PlayerReply
from runtime.players.places import Place
from runtime.players.rows_gen1 import ListedAgents, ListReader
from runtime.players.wire import communicator_gen1_pb2 as pb

AGENTS_KEPT_MIN = 4096


@dataclass(frozen=True, slots=True, eq=False)
class LastSeen:
    """The latest observations of a brain's agents since the reset, the newest first: what their episodes may end with.

    At most AGENTS_KEPT_MIN agents, or four times as many as a message lists, are kept.
    """

    ids: Ids
    observations: tuple[Observation, ...]

    def after(self, listed: ListedAgents) -> LastSeen:
        """With the rows of one more message."""
        kept = np.flatnonzero(~np.isin(self.ids, listed.ids)) if len(listed.ids) else np.arange(len(self.ids))
        kept = kept[: max(0, max(AGENTS_KEPT_MIN, 4 * len(listed.ids)) - len(listed.ids))]
        if not len(kept):
            return LastSeen(listed.ids, listed.observations)
        if not len(listed.ids):
            return self
        pairs = zip(listed.observations, self.observations, strict=True)
        joined = tuple(np.concatenate([new, old[kept]]) for new, old in pairs)
        return LastSeen(np.concatenate([listed.ids, self.ids[kept]]), joined)

    def rows_of(self, agents: Ids) -> Ids:
        """Where these agents are; -1 for those not seen."""
        if not len(self.ids):
            return np.full(len(agents), -1, np.int64)
        order = np.argsort(self.ids, kind="stable")
        at = np.minimum(np.searchsorted(self.ids, agents, sorter=order), len(order) - 1)
        return np.where(self.ids[order[at]] == agents, order[at], -1)


@dataclass(frozen=True, slots=True)
class KnownGen1:
    """What a player announced, and what its agents showed last.

    readers: of the brains that we control; watched: of those that are only shown; both by name. ends_all: whether
    `global_done` has a meaning, which API-10 took from it.
    """

    readers: Mapping[str, ListReader]
    watched: Mapping[str, ListReader] = field(default_factory=dict)
    last: Mapping[str, LastSeen] = field(default_factory=dict)
    ends_all: bool = True

    @property
    def brains(self) -> Mapping[str, BrainParameters]:
        """The brains that we control, by name."""
        return {name: reader.brain for name, reader in self.readers.items()}


def known_gen1(ours: tuple[BrainParameters, ...], watched: tuple[BrainParameters, ...], *, ends_all: bool) -> KnownGen1:
    """What is known after the introduction."""
    return KnownGen1(
        readers={each.brain_name: ListReader(each) for each in ours},
        watched={each.brain_name: ListReader(each) for each in watched},
        ends_all=ends_all,
    )


def parse_message(body: bytes, place: Place) -> pb.UnityMessage:
    """The message in `body`. Raises PlayerProtocolError for bytes that are none."""
    try:
        return pb.UnityMessage.FromString(body)
    except DecodeError as error:
        raise place.protocol_error(
            f"the player sent {len(body)} bytes that are no UnityMessage ({error}); expected API-8, API-9 or API-10."
        ) from error


def decode_reply(
    message: pb.UnityMessage, known: KnownGen1, guard: Guard, *, is_first: bool, watches: bool = False
) -> tuple[PlayerReply, KnownGen1]:
    """The rows of every brain, and what is known afterwards.

    is_first: the reply to a reset, in which no episode can end. watches: decode brains that are only shown, too.
    Raises PlayerContentError or PlayerProtocolError, which name brain, agent, field, index and step.
    """
    output = message.unity_output.rl_output
    infos, place = output.agentInfos, guard.place
    for name in infos:
        if name not in known.readers and name not in known.watched and infos[name].value:
            raise place.protocol_error(
                f"agents of brain {name!r}, which was not announced; players of this version announce all brains at "
                f"first: {', '.join(map(repr, (*known.readers, *known.watched))) or 'none'}."
            )
    if is_first:
        known = replace(known, last={})
    ends_all = output.global_done and known.ends_all and not is_first
    rows: dict[str, BrainInfo] = {}
    last: dict[str, LastSeen] = {}
    readers = {**known.readers, **(known.watched if watches else {})}
    for name, reader in readers.items():
        agents = infos[name].value if name in infos else ()
        before = known.last.get(name) or LastSeen(np.zeros(0, np.int64), empty_rows(reader.brain)[0].observations)
        listed = reader.read(agents, guard)
        rows[name] = _split(reader.brain, listed, before, EnvId(place.env_id), is_first=is_first, ends_all=ends_all)
        last[name] = before.after(listed)
    ours: AllBrainInfo = {name: rows[name] for name in known.readers}
    reply = PlayerReply(
        infos=ours,
        replaced_numbers=guard.replaced,
        replaced_first=guard.first,
        global_done=ends_all,
        watched={name: rows[name] for name in rows if name not in ours},
    )
    return reply, replace(known, last={} if ends_all else last)


def _split(
    brain: BrainParameters, listed: ListedAgents, before: LastSeen, env_id: EnvId, *, is_first: bool, ends_all: bool
) -> BrainInfo:
    """The two kinds of rows in one list of agents."""
    no_decisions, no_terminals = empty_rows(brain)
    terminals = no_terminals
    if not is_first and (ends_all or listed.done.any()):
        terminals = _terminals(listed, before, ends_all=ends_all)
    if ends_all or not len(listed.ids):
        return BrainInfo(no_decisions, terminals, env_id)
    count = len(listed.ids)
    decisions = DecisionRows(
        agents=listed.ids,
        observations=listed.observations,
        rewards=np.where(listed.done, np.float32(0), listed.rewards),
        action_masks=listed.masks,
        group_ids=np.zeros(count, np.int32),
        group_rewards=np.zeros(count, np.float32),
    )
    return BrainInfo(
        decisions,
        terminals,
        env_id,
        memories=listed.memories,
        previous_vector_actions=listed.previous_actions,
        text_observations=listed.texts,
    )


def _terminals(listed: ListedAgents, before: LastSeen, *, ends_all: bool) -> TerminalRows:
    """The ends of episodes: of the agents that are done, or, when all end at once, of all that were seen.

    An agent that was not seen before shows its new observation: it had no decision whose outcome could use it. One that
    is not listed when all end was cut off by a time limit without a reward.
    """
    ended = np.flatnonzero(listed.done | ends_all)
    ids, rewards = listed.ids[ended], listed.rewards[ended]
    interrupted: Bools = listed.interrupted[ended] | ~listed.done[ended]
    at = before.rows_of(ids)
    observations = [
        _chosen(old, at, new[ended]) for old, new in zip(before.observations, listed.observations, strict=True)
    ]
    if ends_all:
        silent = np.flatnonzero(~np.isin(before.ids, listed.ids))
        ids = np.concatenate([ids, before.ids[silent]])
        rewards = np.concatenate([rewards, np.zeros(len(silent), np.float32)])
        interrupted = np.concatenate([interrupted, np.ones(len(silent), np.bool_)])
        pairs = zip(observations, before.observations, strict=True)
        observations = [np.concatenate([shown, old[silent]]) for shown, old in pairs]
    nothing: Floats = np.zeros(len(ids), np.float32)
    return TerminalRows(ids, tuple(observations), rewards, interrupted, np.zeros(len(ids), np.int32), nothing)


def _chosen(old: Observation, at: Ids, new: Observation) -> Observation:
    """The old rows, and the new ones where there is no old one."""
    if (at >= 0).all():
        return old[at]
    chosen = new.copy()
    chosen[at >= 0] = old[at[at >= 0]]
    return chosen
