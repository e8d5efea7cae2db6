"""What a brain looks like from outside: observation specs, action spec, and one moment of its agents.

A *brain* is what newer Unity packages call a behavior, `Name?team=N`. `BrainInfo` has one meaning in this project:
rows that ask for a decision and terminal rows stand apart (protocol generation 2).

Players of API-8 to API-10 say both in one: an agent that is done carries the reward of the episode that ended and the
first observation of the next one. It becomes two rows of one reply: a terminal row with that reward, whose observation
is the last one that the agent sent *before* (the final one never reaches us, so a time limit bootstraps from the last
that was seen), and a decision row with the new observation and reward 0.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NewType

if TYPE_CHECKING:
    # Loaded where it is used: actors that never touch an array do without, and without its 15 MB.
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]
    Ints = npt.NDArray[np.int32]
    Ids = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]
    Observation = npt.NDArray[np.float32] | npt.NDArray[np.uint8]
else:

    def __getattr__(name: str) -> object:
        """The aliases above, made when somebody asks for one."""
        kinds = {
            "Floats": ("float32",),
            "Ints": ("int32",),
            "Ids": ("int64",),
            "Bools": ("bool_",),
            "Observation": ("float32", "uint8"),
        }
        if name not in kinds:
            msg = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(msg)
        import numpy as np  # noqa: PLC0415 - as above
        import numpy.typing as npt  # noqa: PLC0415 - as above

        parts = [npt.NDArray[getattr(np, kind)] for kind in kinds[name]]
        return globals().setdefault(name, functools.reduce(operator.or_, parts))


EnvId = NewType("EnvId", int)
Incarnation = NewType("Incarnation", int)
BrainName = NewType("BrainName", str)


@dataclass(frozen=True, slots=True)
class ObservationSpec:
    """One observation of a brain.

    shape: without the agent axis; rank 1 vector, rank 2 buffer, rank 3 image (channels, height, width), whatever order
    a player sends. dimension_properties: one set of bit flags per dimension (0 unspecified, 1 none, 2 translational
    equivariance, 4 variable size). observation_type: 0 default, 1 goal. dtype: of all its rows; uint8 for images that
    came as PNG files, 0 to 255 for 0.0 to 1.0.
    """

    shape: tuple[int, ...]
    dimension_properties: tuple[int, ...] = ()
    observation_type: int = 0
    name: str = ""
    dtype: Literal["float32", "uint8"] = "float32"


@dataclass(frozen=True, slots=True)
class ActionSpec:
    """Sizes of a brain's actions: `continuous_size` floats and one index per discrete branch."""

    continuous_size: int = 0
    discrete_branches: tuple[int, ...] = ()

    @property
    def discrete_size(self) -> int:
        """Number of branches."""
        return len(self.discrete_branches)

    @property
    def mask_size(self) -> int:
        """Width of a flat action mask: the sum of the branch sizes."""
        return sum(self.discrete_branches)


@dataclass(frozen=True, slots=True)
class BrainParameters:
    """A brain as the player announced it; fixed for the life of a run.

    brain_name: the name on the wire, with its `?team=N` if it has one. shows_ends: its terminal rows show what was
    observed when the episode ended; False where that never reaches us. Brains that differ in it are the same.
    """

    brain_name: BrainName
    observation_specs: tuple[ObservationSpec, ...]
    action_spec: ActionSpec
    shows_ends: bool = field(default=True, compare=False)

    @property
    def behavior_name(self) -> str:
        """The name without `?team=N`: settings, files and trainers go by this."""
        return self.brain_name.partition("?")[0]

    @property
    def team(self) -> int:
        """Team number; 0 when the name has none."""
        for part in self.brain_name.partition("?")[2].split("&"):
            key, _, value = part.partition("=")
            if key == "team" and value.isdecimal():
                return int(value)
        return 0

    @property
    def vector_observation_space_size(self) -> int:
        """Floats in all rank-1 observations of one agent."""
        return sum(spec.shape[0] for spec in self.observation_specs if len(spec.shape) == 1)

    @property
    def number_visual_observations(self) -> int:
        """Number of rank-3 observations."""
        return sum(len(spec.shape) == 3 for spec in self.observation_specs)

    @property
    def vector_action_space_size(self) -> tuple[int, ...]:
        """The seed's form: one number of floats, or one size per branch."""
        return self.action_spec.discrete_branches or (self.action_spec.continuous_size,)

    @property
    def vector_action_space_type(self) -> str:
        """The seed's form: `discrete`, `continuous`, or `hybrid` when there are both."""
        if self.action_spec.discrete_branches and self.action_spec.continuous_size:
            return "hybrid"
        return "discrete" if self.action_spec.discrete_branches else "continuous"


@dataclass(frozen=True, slots=True, eq=False)
class DecisionRows:
    """Agents that ask for a decision, in the player's order.

    agents: int64 (n,), the player's ids, unique. observations: one array (n, *shape) per spec, of the spec's dtype.
    rewards: float32 (n,), since the agent's previous row. action_masks: bool
    (n, mask_size), True = allowed, or None when the brain has no branches or nothing was masked. group_ids: int32 (n,),
    0 = none. group_rewards: float32 (n,).
    """

    agents: Ids
    observations: tuple[Observation, ...]
    rewards: Floats
    action_masks: Bools | None
    group_ids: Ints
    group_rewards: Floats

    def __len__(self) -> int:
        return len(self.agents)


@dataclass(frozen=True, slots=True, eq=False)
class TerminalRows:
    """Agents whose episode ended in this reply: the episode's last observation and reward.

    interrupted: bool (n,), True when a time limit ended it. The other fields are as in `DecisionRows`.
    """

    agents: Ids
    observations: tuple[Observation, ...]
    rewards: Floats
    interrupted: Bools
    group_ids: Ints
    group_rewards: Floats

    def __len__(self) -> int:
        return len(self.agents)


def empty_rows(spec: BrainParameters) -> tuple[DecisionRows, TerminalRows]:
    """No agents at all, with the right shapes."""
    import numpy as np  # noqa: PLC0415 - as above

    ids, floats, ints = np.zeros(0, np.int64), np.zeros(0, np.float32), np.zeros(0, np.int32)
    observations = tuple(
        np.zeros((0, *each.shape), np.uint8 if each.dtype == "uint8" else np.float32) for each in spec.observation_specs
    )
    decisions = DecisionRows(ids, observations, floats, None, ints, floats)
    return decisions, TerminalRows(ids, observations, floats, np.zeros(0, np.bool_), ints, floats)


@functools.cache
def _nothing() -> Floats:
    import numpy as np  # noqa: PLC0415 - as above

    return np.zeros((0, 0), np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class BrainInfo:
    """All agents of one brain in one reply of one player.

    worker_id: the environment's number, which makes an agent's id unique over environments: `$<worker_id>-<id>`.
    The seed's views (`vector_observations`, `rewards`, `agents`, ...) show the rows that ask for a decision;
    `local_done` and `max_reached` belong to terminal rows (`terminals`). memories (n, m), previous_vector_actions
    (n, width) and text_observations belong to the rows that ask; only players of API-8 to API-10 send them.
    """

    decisions: DecisionRows
    terminals: TerminalRows
    worker_id: EnvId = EnvId(0)
    memories: Floats = field(default_factory=_nothing)
    previous_vector_actions: Floats = field(default_factory=_nothing)
    text_observations: tuple[str, ...] = ()

    @property
    def agents(self) -> list[str]:
        """Ids of the agents that ask for a decision, as users see them."""
        return [agent_name(self.worker_id, int(each)) for each in self.decisions.agents]

    @property
    def observations(self) -> tuple[Observation, ...]:
        """Observations of the agents that ask for a decision, one array per spec."""
        return self.decisions.observations

    @property
    def vector_observations(self) -> Floats:
        """float32 (n, total size): the rank-1 observations side by side."""
        import numpy as np  # noqa: PLC0415 - as above

        vectors = [each for each in self.decisions.observations if each.ndim == 2]
        if not vectors:
            return np.zeros((len(self.decisions), 0), np.float32)
        return np.concatenate(vectors, axis=1).astype(np.float32, copy=False)

    @property
    def visual_observations(self) -> list[Observation]:
        """The rank-3 observations, one array (n, ...) each."""
        return [each for each in self.decisions.observations if each.ndim == 4]

    @property
    def rewards(self) -> Floats:
        """float32 (n,): rewards of the agents that ask for a decision."""
        return self.decisions.rewards

    @property
    def action_masks(self) -> Bools | None:
        """bool (n, mask_size), True = allowed, or None when nothing is masked."""
        return self.decisions.action_masks

    @property
    def local_done(self) -> list[bool]:
        """One True per terminal row."""
        return [True] * len(self.terminals)

    @property
    def max_reached(self) -> list[bool]:
        """One flag per terminal row: True when a time limit ended the episode."""
        return [bool(each) for each in self.terminals.interrupted]


AllBrainInfo = Mapping[str, BrainInfo]


def agent_name(env_id: int, agent: int) -> str:
    """The public id of an agent: `$<worker_id>-<id>`, unique over the environments of a run."""
    return f"${env_id}-{agent}"


def parse_agent_name(name: str) -> tuple[int, int]:
    """The (environment, agent) of a public id. Raises ValueError for any other text."""
    env_text, separator, agent_text = name.removeprefix("$").partition("-")
    if not name.startswith("$") or not separator or not env_text.isdecimal():
        msg = f"{name!r} is not an agent id; expected $<worker_id>-<id>, like '$0-12'"
        raise ValueError(msg)
    return int(env_text), int(agent_text)
