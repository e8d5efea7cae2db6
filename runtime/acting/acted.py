"""What one act came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from runtime.acting.graphs import Heads
from runtime.acting.memories import Remembered
from runtime.acting.sampling import log_probability
from runtime.experience.actions import ActionInfo, Actions
from runtime.experience.brains import Bools, Floats, Ids, Ints


class Basis(NamedTuple):
    """What a graph's actions were chosen from: the heads, the constant log_std, and the masks."""

    heads: Heads
    log_std: Floats | None
    masks: Bools | None
    branches: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Acted:
    """Actions for the n agents of one brain, and where they come from.

    agents: int64 (n,), in the order of the rows that asked. version: of the policy. actions: what is sent, continuous
    values squashed into [-1, 1]. continuous_raw: float32 (n, c), the sample before that, which blocks keep. value:
    float32 (n, streams), or None when the policy has none. origin: what the actions were chosen from, or the answer of
    a hand-written policy. remembered: what a policy with memory was given; what it made of that is in `actions`.
    """

    agents: Ids
    version: int
    actions: Actions
    continuous_raw: Floats
    value: Floats | None
    origin: Basis | ActionInfo
    remembered: Remembered | None = None

    @property
    def memory_before(self) -> Floats | None:
        """float32 (n, w): what each agent remembered before; None for a policy without memory."""
        return None if self.remembered is None else self.remembered.before

    @property
    def sequence_starts(self) -> Bools | None:
        """bool (n,): whether a training sequence starts with the action; None for a policy without memory."""
        return None if self.remembered is None else self.remembered.starts

    @property
    def discrete(self) -> Ints:
        """int32 (n, branches): the chosen indices."""
        return self.actions.discrete

    @property
    def action_info(self) -> ActionInfo:
        """The seed's form; a hand-written policy's own answer, unchanged.

        outputs of a graph: `log_probs` float32 (n,), `pre_action` float32 (n, c), `policy_version` float32 (n,), and
        `value` if there is one; of one with memory `memory_before` float32 (n, w) and `sequence_starts` float32 (n,), 1
        where a training sequence starts. They are computed when asked for: the acting loop does without.
        """
        if isinstance(self.origin, ActionInfo):
            return self.origin
        basis = self.origin
        outputs = {
            "log_probs": log_probability(
                mean=basis.heads.mean,
                log_std=basis.log_std,
                logits=basis.heads.logits,
                masks=basis.masks,
                branches=basis.branches,
                raw=self.continuous_raw,
                discrete=self.discrete,
            ),
            "pre_action": self.continuous_raw,
            "policy_version": np.full(len(self.agents), self.version, np.float32),
        }
        if self.value is not None:
            outputs["value"] = self.value
        if self.remembered is not None:
            outputs["memory_before"] = self.remembered.before
            outputs["sequence_starts"] = self.remembered.starts.astype(np.float32)
        return ActionInfo(
            action=self.actions.to_array(), memory=self.actions.memories, value=self.value, outputs=outputs
        )
