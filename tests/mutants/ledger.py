"""Mutants of the ledger: what becomes of a block, what is counted, what is declared lost."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, Patch, mutant

LEDGER = (
    Mutant(
        "blocks_are_taken_twice",
        "no block is recognised as a duplicate",
        (
            Patch("ledger", "block.first_step + block.steps <= seen:", "False:"),
            Patch("ledger", 'return "accept" if block.first_step == seen else "gap"', 'return "accept"'),
        ),
    ),
    mutant(
        "gaps_are_accepted",
        "a block behind missing ones is accepted",
        "ledger",
        'return "accept" if block.first_step == seen else "gap"',
        'return "accept"',
    ),
    mutant(
        "marks_without_incarnation",
        "a block of an old incarnation is compared with the new one's steps",
        "ledger",
        "record.received if is_now else record.past.get(block.incarnation)",
        "record.received",
    ),
    Mutant(
        "no_fence",
        "blocks of old incarnations are accepted",
        (
            Patch("ledger", "if not is_now or block.reset_id != record.reset_id:", "if False:"),
            Patch("collecting", " or block.incarnation != record.incarnation", ""),
        ),
    ),
    mutant(
        "late_blocks_are_accepted",
        "a block of an environment that was written off is accepted, though its trajectories were cut",
        "collecting",
        'verdict = verdict if block.env_id in state.cuts and not is_saved else "stale"',
        "verdict = verdict",
    ),
    mutant(
        "acknowledged_before_arrival",
        "a grant acknowledges what was granted, not what arrived",
        "collecting",
        "accepted_step=each.received,",
        "accepted_step=each.until,",
    ),
    mutant(
        "rounds_are_accepted_twice",
        "the blocks of a round are kept after they were accepted",
        "collecting",
        "return replace(state, round_blocks={}, cuts=frozenset()), (*effects, *cuts)",
        "return replace(state, cuts=frozenset()), (*effects, *cuts)",
    ),
    mutant(
        "messages_are_counted",
        "a block counts one agent step, whatever is in it",
        "ledger",
        "agent_steps=self.agent_steps + block.agent_steps,",
        "agent_steps=self.agent_steps + 1,",
    ),
    mutant(
        "resets_are_counted",
        "the reply to a reset counts an env step",
        "ledger",
        "env_steps=self.env_steps + block.steps,",
        "env_steps=self.env_steps + max(1, block.steps),",
    ),
    mutant(
        "outcomes_are_counted_as_decisions",
        "decisions count their outcomes",
        "ledger",
        "decisions=self.decisions + block.decisions,",
        "decisions=self.decisions + block.agent_steps,",
    ),
    mutant(
        "stale_without_a_word",
        "a block that is dropped is not declared lost",
        "collecting",
        "counters=state.counters.lose(verdict, block.agent_steps).drop(",
        "counters=state.counters.drop(",
    ),
    mutant(
        "declared_twice",
        "a late block is declared lost and stays in the bound on what is unknown, below zero in the end",
        "collecting",
        "known = min(block.agent_steps, state.counters.unreported_max)",
        "known = 3 * block.agent_steps + 1",
    ),
    mutant(
        "stale_policies_are_fine",
        "no step is too old to be accepted",
        "collecting",
        "not state.options.is_sync and _lag(state, block) > LAG_MAX",
        "False",
    ),
    mutant(
        "stale_by_one_more",
        "a step may be three versions old",
        "collecting",
        "LAG_MAX = 2",
        "LAG_MAX = 3",
    ),
    mutant(
        "worker_unreported_forgotten",
        "what a lost worker did with its grants is not declared",
        "controller",
        "unreported = unreported_bound(record, state.agents_max)\n        record = seen",
        "unreported = 0\n        record = seen",
    ),
    mutant(
        "successor_hides_its_predecessor",
        "the loss of an incarnation whose successor is heard of first is not declared",
        "controller",
        "state = _lose(state, record, unreported_bound(record, state.agents_max))",
        "state = _lose(state, record, 0)",
    ),
    mutant(
        "player_unreported_forgotten",
        "the step in which a player died is not declared by the controller",
        "controller",
        "state = _lose(state, record, message.unreported_steps)",
        "state = _lose(state, record, 0)",
    ),
    mutant(
        "player_unreported_untold",
        "the step in which a player died is not told by its worker",
        "env_worker",
        "unreported_steps=message.unreported_steps,",
        "unreported_steps=0,",
    ),
    mutant(
        "planned_restart_unreported",
        "what players do between the planned restart and their end is not declared",
        "controller_end",
        "counters = counters.leave_unreported(unreported_bound(each, state.agents_max))\n        envs",
        "envs",
    ),
    mutant(
        "gap_unreported",
        "steps that never came are not bounded",
        "collecting",
        "counters = state.counters.leave_unreported(missing * state.agents_max)",
        "counters = state.counters",
    ),
    mutant(
        "agents_untold",
        "a worker does not tell at once that it has more agents than the controller knows of",
        "env_worker",
        "if agents > slot.agents_told:",
        "if False:",
    ),
    mutant(
        "last_blocks_thrown_away",
        "blocks of a round that has not ended are dropped when the run ends",
        "controller_end",
        "    if blocks:\n        counters = state.counters\n",
        "    if False:\n        counters = state.counters\n",
    ),
)
