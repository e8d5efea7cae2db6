"""Rounds and grants: the part of the controller's decisions that moves experience.

Everything here is a function of what was accepted, in an order that timing cannot change.
"""

from __future__ import annotations

from math import ceil

from runtime.decisions.controller_end import after_round, due_end
from runtime.decisions.controller_state import ControllerPhase, ControllerState
from runtime.decisions.curricula import parameters_of, reset_players
from runtime.decisions.effects import AcceptBlocks, CutTrajectories, Send, StartUpdate, worker_role
from runtime.decisions.frozen import replace
from runtime.decisions.ledger import EnvRecord, behaviors_of, judge, seen_block
from runtime.decisions.planning import round_steps
from runtime.experience.brains import EnvId
from runtime.experience.columns import StepBlock
from runtime.messages import EnvGrant, StepGrant

Effects = tuple[object, ...]
Decision = tuple[ControllerState, Effects]

LAG_MAX = 2


def accept(state: ControllerState, blocks: tuple[StepBlock, ...]) -> Decision:
    """Count blocks and give them to the learner."""
    counters, behaviors = state.counters, dict(state.behaviors)
    for block in blocks:
        counters = counters.accept(block)
        for name, count in behaviors_of(block.pending).items():
            if count and name in behaviors:
                behaviors[name] = replace(behaviors[name], agents_seen_at=counters.env_steps)
        for wire_name, version in block.versions.items():
            name = wire_name.partition("?")[0]
            if name in behaviors and version > behaviors[name].acted_version:
                behaviors[name] = replace(behaviors[name], acted_version=version)
    state = replace(state, counters=counters, behaviors=behaviors, accepting=state.accepting + 1)
    return state, (AcceptBlocks(blocks),)


def admit(state: ControllerState, block: StepBlock) -> Decision:
    """Take one block that arrived: keep it for the round, accept it, or declare it lost."""
    record = state.envs.get(block.env_id)
    verdict = "duplicate" if record is None else judge(record, block)
    if record is None or verdict == "duplicate":
        return replace(state, counters=state.counters.drop("StepsTaken")), ()
    if verdict == "accept" and not state.options.is_sync and _lag(state, block) > LAG_MAX:
        verdict = "stale"
    # The last save holds what was accepted before it, and the ledger must not say more.
    is_saved = state.phase is ControllerPhase.SAVING
    is_late = is_saved or record.state not in {"stepping", "ready"} or block.incarnation != record.incarnation
    if is_late:
        # It was written off with its whole grant unreported; what it says now is known.
        known = min(block.agent_steps, state.counters.unreported_max)
        state = replace(state, counters=state.counters.leave_unreported(-known))
        key = block.env_id, block.incarnation
        if key in state.bounded:
            state = replace(state, bounded={**state.bounded, key: max(0, state.bounded[key] - known)})
        verdict = verdict if block.env_id in state.cuts and not is_saved else "stale"
    seen = seen_block(record, block)
    state = replace(
        state,
        envs={**state.envs, block.env_id: seen},
        agents_max=max(state.agents_max, sum(block.pending.values())),
    )
    if verdict != "accept":
        state = replace(state, counters=state.counters.lose(verdict, block.agent_steps).drop("StepsTaken"))
        if is_late:
            return state, ()
        state, effects = _step_over(state, record, block)
    elif state.options.is_sync and state.phase is ControllerPhase.COLLECTING and state.ending is None:
        held = (*state.round_blocks.get(block.env_id, ()), block)
        state, effects = replace(state, round_blocks={**state.round_blocks, block.env_id: held}), ()
    else:
        state, effects = accept(state, (block,))
    if seen.agents > record.agents and seen.state == "stepping":
        # It waits until it hears that we know of them, whatever became of the block.
        effects = (*effects, *grant_again(state, seen))
    return state, effects


def _lag(state: ControllerState, block: StepBlock) -> int:
    """By how many versions the newest policies are ahead of those that acted."""
    newest = state.versions
    ahead = [newest.get(name.partition("?")[0], version) - version for name, version in block.versions.items()]
    return max(ahead, default=0)


def _step_over(state: ControllerState, record: EnvRecord, block: StepBlock) -> Decision:
    """After a block that cannot be used: no trajectory goes on over the hole, and what never came is bounded."""
    missing = max(0, block.first_step - record.received)
    counters = state.counters.leave_unreported(missing * state.agents_max)
    return flush_lost(replace(state, counters=counters, cuts=state.cuts | {block.env_id}), block.env_id)


def flush_lost(state: ControllerState, env_id: EnvId) -> Decision:
    """Accept what a lost player had delivered and end its trajectories, before its successor's first rows."""
    if env_id not in state.cuts:
        return state, ()
    blocks = state.round_blocks.get(env_id, ())
    effects: Effects = ()
    if blocks:
        state, effects = accept(state, blocks)
    held = {key: value for key, value in state.round_blocks.items() if key != env_id}
    return replace(state, round_blocks=held, cuts=state.cuts - {env_id}), (*effects, CutTrajectories(env_id))


def accept_round(state: ControllerState) -> Decision:
    """Accept all blocks of the round in (env_id, first_step) order; end the trajectories of lost players."""
    blocks = tuple(block for env_id in sorted(state.round_blocks) for block in state.round_blocks[env_id])
    effects: Effects = ()
    if blocks:
        state, effects = accept(state, blocks)
    cuts = tuple(CutTrajectories(env_id) for env_id in sorted(state.cuts))
    return replace(state, round_blocks={}, cuts=frozenset()), (*effects, *cuts)


def go_on_collecting(state: ControllerState) -> Decision:
    """Whatever can be done now: close the round, update, begin the next round, or grant more."""
    if state.ending is not None or state.accepting:
        return state, ()
    if not state.options.is_sync and state.phase is ControllerPhase.COLLECTING:
        return _go_on_freely(state)
    effects: Effects = ()
    if state.phase is ControllerPhase.COLLECTING:
        if any(each.state == "stepping" for each in state.envs.values()):
            return state, ()
        state, effects = accept_round(replace(state, phase=ControllerPhase.SETTLING))
        if state.accepting:
            return state, effects
    if state.phase is ControllerPhase.SETTLING:
        state, more = settle(state)
        effects = (*effects, *more)
        if state.phase is not ControllerPhase.GATHERING:
            return state, effects
    if state.phase is ControllerPhase.GATHERING and _can_begin(state):
        state, more = begin_round(state)
        effects = (*effects, *more)
    return state, effects


def settle(state: ControllerState) -> Decision:
    """After a round was accepted: updates that are due, one after another, then saves, stops and restarts."""
    if state.updating:
        return state, ()
    ready = due_updates(state)
    if ready:
        return replace(state, updating=ready), tuple(StartUpdate(name) for name in ready)
    return after_round(replace(state, phase=ControllerPhase.GATHERING))


def due_updates(state: ControllerState) -> tuple[str, ...]:
    """Behaviors whose update is due, in the order of names."""
    if not state.options.is_training:
        return ()
    return tuple(
        name
        for name in sorted(state.progress)
        if state.progress[name].is_ready_update and name in state.behaviors and name not in state.updating
    )


BLOCKS_AHEAD = 2


def _can_begin(state: ControllerState) -> bool:
    records = state.envs.values()
    if any(each.state == "resetting" and each.reset_id > 0 for each in records):
        return False  # a new lesson begins for all of them together
    if state.waits_for_all:
        return all(each.state == "ready" for each in records) and _policies_there(state)
    return any(each.state == "ready" for each in records) and _policies_there(state)


def _policies_there(state: ControllerState) -> bool:
    seen = {name for each in state.envs.values() if each.state == "ready" for name in each.pending}
    return all(name in state.behaviors for name in seen)


def begin_round(state: ControllerState) -> Decision:
    """Grant every ready environment the same number of env steps."""
    ready = [each for each in state.envs.values() if each.state == "ready"]
    steps = planned_steps(state, ready)
    window = steps if state.options.is_sync else BLOCKS_AHEAD * steps
    state = replace(state, phase=ControllerPhase.COLLECTING, waits_for_all=False)
    for each in ready:
        granted = replace(each, state="stepping", until=each.received + window)
        state = replace(state, envs={**state.envs, each.env_id: granted})
    return state, grants(state, [state.envs[each.env_id] for each in ready], steps)


def planned_steps(state: ControllerState, ready: list[EnvRecord]) -> int:
    """Env steps of the next round (or block, in asynchronous collection)."""
    options = state.options
    blocks_ahead = 1 if options.is_sync else BLOCKS_AHEAD
    target = options.stop_at
    if options.restart_envs_at is not None and not state.has_restarted_envs:
        target = options.restart_envs_at
    return round_steps(
        state.progress,
        [each.pending for each in ready],
        steps_max=min(options.block_steps_max, _until_resampling(state, max(1, len(ready)) * blocks_ahead)),
        until_agent_steps=target,
        agent_steps=state.counters.agent_steps,
        blocks_ahead=blocks_ahead,
    )


def _until_resampling(state: ControllerState, blocks: int) -> int:
    """Env steps of each of so many blocks until all environments are reset with parameters drawn anew."""
    interval = state.options.resampling_interval
    if interval is None:
        return state.options.block_steps_max
    return max(1, ceil((interval * (state.resampled + 1) - state.counters.env_steps) / blocks))


def grants(state: ControllerState, records: list[EnvRecord], block_steps: int) -> Effects:
    """One StepGrant per EnvWorker for these environments."""
    by_worker: dict[int, list[EnvGrant]] = {}
    for each in records:
        grant = EnvGrant(
            env_id=each.env_id,
            incarnation=each.incarnation,
            reset_id=each.reset_id,
            until_step=each.until,
            accepted_step=each.received,
        )
        by_worker.setdefault(each.worker, []).append(grant)
    # A lesson that begins with a reset is not told before it, in the middle of episodes.
    is_told = state.parameters_id > 0 and not state.is_reset_due
    return tuple(
        Send(
            worker_role(worker),
            StepGrant(
                run=state.options.run,
                grants=tuple(by_worker[worker]),
                versions=state.versions,
                block_steps=block_steps,
                gathers=state.options.is_sync,
                parameters=parameters_of(state) if is_told else {},
                parameters_id=state.parameters_id if is_told else 0,
            ),
        )
        for worker in sorted(by_worker)
    )


def grant_again(state: ControllerState, only: EnvRecord | None = None) -> Effects:
    """The grants that are open (or only this one), once more: they carry a new version, or tell what has arrived."""
    stepping = [each for each in state.envs.values() if each.state == "stepping"] if only is None else [only]
    if not stepping or state.ending is not None:
        return ()
    is_sync = state.options.is_sync
    return grants(state, stepping, state.options.block_steps_max if is_sync else planned_steps(state, stepping))


def _go_on_freely(state: ControllerState) -> Decision:
    """Asynchronous collection: start updates that are due, and extend every window unless the next buffer is full."""
    effects: Effects = tuple(CutTrajectories(env_id) for env_id in sorted(state.cuts))
    state = replace(state, cuts=frozenset())
    ready = due_updates(state)
    # A behavior of an earlier part of the run that has not come back is not updated either.
    is_full = any(each.is_ready_update for name, each in state.progress.items() if name in state.behaviors)
    if ready and not state.updating:
        return replace(state, updating=ready), (*effects, *(StartUpdate(name) for name in ready))
    if not state.updating:
        state, more = after_round(state)
        effects = (*effects, *more)
        if state.ending is not None or state.phase is not ControllerPhase.COLLECTING:
            return state, effects
    if state.is_reset_due:
        if any(each.state == "stepping" for each in state.envs.values()):
            return state, effects  # they take what they were granted, and no more
        state, more = reset_players(state)
        return state, (*effects, *more)
    if is_full and state.options.is_training:
        return state, effects
    if due_end(state) is not None:
        # It waits for the update under way; nobody steps beyond it meanwhile.
        return state, effects
    able = [each for each in state.envs.values() if each.state in {"ready", "stepping"}]
    if not able or not _policies_there(state):
        return state, effects
    steps = planned_steps(state, able)
    widened = [
        replace(each, state="stepping", until=each.received + BLOCKS_AHEAD * steps)
        for each in able
        if each.until - each.received <= steps
    ]
    if not widened:
        return state, effects
    state = replace(state, envs={**state.envs, **{each.env_id: each for each in widened}})
    return state, (*effects, *grants(state, widened, steps))
