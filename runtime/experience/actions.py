"""What a policy answers: an ActionInfo per brain, and the Policy interface of the seed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from runtime.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.experience.brains import ActionSpec, BrainInfo, Floats, Ints

ActionInfoOutputs = "Mapping[str, Floats]"


class ActionInfo(NamedTuple):
    """Actions for the agents of one BrainInfo that ask for a decision.

    action: float32 (n, continuous_size + branches): continuous values in [-1, 1] first, then one index per branch.
    memory, text, value: as in the seed; None when unused. outputs: whatever the policy wants to keep beside it.
    """

    action: Floats
    memory: Floats | None = None
    text: list[str] | None = None
    value: Floats | None = None
    outputs: Mapping[str, Floats] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Actions:
    """Actions split by kind: continuous float32 (n, c) in the player's units, discrete int32 (n, branches).

    memories: float32 (n, m), texts: one per agent, values: float32 (n,): what players of API-8 to API-10 keep or show
    for an agent; None or empty when there is nothing to tell. Other players are not told.
    """

    continuous: Floats
    discrete: Ints
    memories: Floats | None = None
    texts: tuple[str, ...] = ()
    values: Floats | None = None

    @staticmethod
    def from_action_info(info: ActionInfo, spec: ActionSpec) -> Actions:
        """The two halves of `info.action`. Raises ValueError when its width is not the brain's."""
        import numpy as np  # noqa: PLC0415 - actors that never touch an array do without

        action = np.atleast_2d(np.asarray(info.action, dtype=np.float32))
        width = spec.continuous_size + spec.discrete_size
        if action.shape[1] != width:
            msg = f"an action of width {action.shape[1]} for a brain that takes {width} numbers per agent"
            raise ValueError(msg)
        split = spec.continuous_size
        return Actions(action[:, :split], np.rint(action[:, split:]).astype(np.int32))

    def to_array(self) -> Floats:
        """float32 (n, c + branches): the form of `ActionInfo.action`."""
        import numpy as np  # noqa: PLC0415 - as above

        return np.concatenate([self.continuous, self.discrete.astype(np.float32)], axis=1)


class Policy(ABC):
    """Chooses actions: the seed's interface, for hand-written policies."""

    @abstractmethod
    def get_action(self, brain_info: BrainInfo) -> ActionInfo:
        """Actions for the agents of `brain_info` that ask for a decision, in their order."""


class ModelPolicy(Policy):
    """A policy that is a network: whoever acts with it elsewhere is sent its graph, and never the object."""

    @property
    @abstractmethod
    def version(self) -> int:
        """Of the policy of now, from 1; each change of its weights makes it higher."""

    @abstractmethod
    def acting_model(self) -> bytes:
        """The policy of now as an ONNX graph that acts (its contract: `runtime/acting`)."""


def pickled(policy: Policy) -> bytes:
    """A hand-written policy as EnvWorkers are sent it. Raises UsageError for one that cannot be pickled."""
    import cloudpickle  # noqa: PLC0415 - only who sends one needs it

    try:
        body: bytes = cloudpickle.dumps(policy)
    except Exception as error:
        text = f"the policy {type(policy).__name__} cannot be sent to EnvWorkers: {error}."
        raise UsageError(f"{text} Keep files, locks and sessions out of it.") from error
    return body
