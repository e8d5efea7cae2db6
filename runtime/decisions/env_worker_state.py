"""What an EnvWorker remembers, frozen, and the table of what may happen to each environment in which phase."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from runtime.decisions.effects import PlayerClosed, PlayerConnected, PlayerFailed, PlayerReplied, PlayerStepped
from runtime.decisions.frozen import replace
from runtime.errors import ActorProtocolError
from runtime.experience.brains import EnvId
from runtime.experience.parameters import ParameterValue
from runtime.messages import EnvAssignment, EnvGrant, ResetRequest, StartWorker, StopRequest

Effects = tuple[object, ...]


class Phase(Enum):
    """Where one environment is."""

    OPENING = "opening"
    CONNECTED = "connected"
    RESETTING = "resetting"
    IDLE = "idle"
    STEPPING = "stepping"
    LOST = "lost"
    CLOSING = "closing"
    CLOSED = "closed"


TRANSITIONS: Mapping[tuple[Phase, type], Phase] = {
    (Phase.OPENING, PlayerConnected): Phase.CONNECTED,
    (Phase.OPENING, PlayerFailed): Phase.LOST,
    (Phase.CONNECTED, ResetRequest): Phase.RESETTING,
    (Phase.CONNECTED, PlayerFailed): Phase.LOST,
    (Phase.RESETTING, PlayerReplied): Phase.IDLE,
    (Phase.RESETTING, PlayerFailed): Phase.LOST,
    (Phase.RESETTING, ResetRequest): Phase.RESETTING,
    (Phase.IDLE, ResetRequest): Phase.RESETTING,
    (Phase.IDLE, EnvGrant): Phase.IDLE,
    (Phase.IDLE, PlayerFailed): Phase.LOST,
    (Phase.STEPPING, PlayerReplied): Phase.IDLE,
    (Phase.STEPPING, PlayerStepped): Phase.STEPPING,
    (Phase.STEPPING, PlayerFailed): Phase.LOST,
    (Phase.STEPPING, ResetRequest): Phase.STEPPING,
    (Phase.STEPPING, EnvGrant): Phase.STEPPING,
    # The shell may find out twice that a player is gone, and answers may cross a stop or a loss.
    (Phase.LOST, PlayerFailed): Phase.LOST,
    (Phase.LOST, ResetRequest): Phase.LOST,
    (Phase.LOST, EnvGrant): Phase.LOST,
    (Phase.LOST, PlayerClosed): Phase.LOST,
    (Phase.RESETTING, EnvGrant): Phase.RESETTING,
    (Phase.CLOSING, PlayerConnected): Phase.CLOSING,
    (Phase.CLOSING, PlayerReplied): Phase.CLOSING,
    (Phase.CLOSING, PlayerFailed): Phase.CLOSING,
    (Phase.CLOSING, ResetRequest): Phase.CLOSING,
    (Phase.CLOSING, EnvGrant): Phase.CLOSING,
    (Phase.CLOSING, PlayerClosed): Phase.CLOSED,
    (Phase.CLOSED, PlayerClosed): Phase.CLOSED,
    (Phase.CLOSED, PlayerReplied): Phase.CLOSED,
    (Phase.CLOSED, PlayerFailed): Phase.CLOSED,
    (Phase.CLOSED, ResetRequest): Phase.CLOSED,
    (Phase.CLOSED, EnvGrant): Phase.CLOSED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One environment of the worker.

    taken, until_step: env steps of this incarnation, taken and allowed. open_steps: taken but not yet sent.
    agents_told: most agents waiting at once that the controller was told of; told_step: with the steps before this
    one; arrived_step: steps before it have arrived. wanted: a reset that came while an exchange was under way.
    versions: with which it last acted. is_cut: the open steps hold more than one version's, whose age counts from now.
    told: parameters that the player was given last, of parameters_id.
    """

    assignment: EnvAssignment
    phase: Phase = Phase.OPENING
    reset_id: int = -1
    taken: int = 0
    until_step: int = 0
    open_steps: int = 0
    agents_told: int = 0
    told_step: int = 0
    arrived_step: int = 0
    pending: Mapping[str, int] = field(default_factory=dict)
    wanted: ResetRequest | None = None
    is_loss_told: bool = False
    versions: Mapping[str, int] = field(default_factory=dict)
    is_cut: bool = False
    told: Mapping[str, ParameterValue] = field(default_factory=dict)
    parameters_id: int = 0

    @property
    def env_id(self) -> EnvId:
        """The environment's number."""
        return self.assignment.env_id

    @property
    def has_credit(self) -> bool:
        """True while granted steps are left."""
        return self.taken < self.until_step

    @property
    def is_untold(self) -> bool:
        """True while it is not certain that the controller knows of as many agents as there are."""
        return self.arrived_step < self.told_step


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerState:
    """All that an EnvWorker remembers.

    versions: newest granted, by behavior. installed: newest few, by behavior. asked: version asked of the PolicyHolder,
    since when, and how often it was asked again, by behavior. is_gathering: finished blocks wait for the worker's other
    environments. parameters: newest granted, of parameters_id.
    """

    start: StartWorker
    slots: Mapping[EnvId, Slot] = field(default_factory=dict)
    versions: Mapping[str, int] = field(default_factory=dict)
    installed: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    asked: Mapping[str, tuple[int, float, int]] = field(default_factory=dict)
    gathers: bool = False
    is_gathering: bool = False
    block_steps: int = 1
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)
    parameters_id: int = 0
    stop: StopRequest | None = None
    is_finished: bool = False
    dropped: int = 0


def with_slot(state: WorkerState, slot: Slot) -> WorkerState:
    """The state with this slot in the place of its older self."""
    return replace(state, slots={**state.slots, slot.env_id: slot})


def drop(state: WorkerState) -> tuple[WorkerState, Effects]:
    """Nothing happens but that one more message is counted as dropped."""
    return replace(state, dropped=state.dropped + 1), ()


def next_phase(slot: Slot, message: object) -> Phase:
    """The phase after `message`. Raises ActorProtocolError when the table has no row for it."""
    phase = TRANSITIONS.get((slot.phase, type(message)))
    if phase is None:
        msg = f"environment {slot.env_id}: {type(message).__name__} while {slot.phase.value}"
        raise ActorProtocolError(msg)
    return phase
