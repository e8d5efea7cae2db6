"""What both protocol generations have in common, as the player sees it: orders of the trainer in, rows out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from fakeunity.rows import Actions, BehaviorSpec, Rows, World
from fakeunity.side_channels import Sampler

Command = Literal["STEP", "RESET", "QUIT"]
# The action rows of a behavior, which have a length. `Any`: only the dialect that has read them looks into them.
Received = Any


@dataclass(frozen=True, slots=True, eq=False)
class ActionLists:
    """Action rows as they came, one list of numbers per agent and kind; or, all of one width, a table of each kind."""

    continuous: Sequence[Sequence[float]] | NDArray[np.number]
    discrete: Sequence[Sequence[float]] | NDArray[np.number]

    def __len__(self) -> int:
        return len(self.continuous)


@dataclass(frozen=True, slots=True)
class Order:
    """One reply of the trainer.

    seed: that of the handshake, None in any other reply. parameters: environment parameters, in order. train_mode: only
    the old generation says. actions: rows by behavior, for `Dialect.action_lists`. is_asked: of a QUIT,
    whether the trainer ordered it; else the connection closes.
    """

    command: Command
    seed: int | None = None
    parameters: tuple[tuple[str, float | Sampler], ...] = ()
    train_mode: bool | None = None
    actions: Mapping[str, Received] = field(default_factory=dict)
    is_asked: bool = False


class Dialect(Protocol):
    """A generation of the protocol, in conversation with one trainer."""

    exchange_path: str

    def hello(self, world: World) -> bytes:
        """The first call; `world` is asked what it is, not played."""
        ...

    def play(self, world: World) -> None:
        """From now on it is this world's rows that are told."""
        ...

    def read(self, message: bytes, *, is_greeting: bool) -> Order:
        """What a reply says; with `is_greeting` it is the first one, and the trainer's versions are looked at.

        A trainer that closes gives QUIT. Raises TrainerMistakeError for bytes that no player could act on.
        """
        ...

    def action_lists(self, spec: BehaviorSpec, rows: Rows, received: Received) -> ActionLists:
        """One row per waiting agent of `rows`, the world's rows last told. Raises TrainerMistakeError for any other."""
        ...

    def applied(self, spec: BehaviorSpec, rows: Rows, actions: Actions) -> None:
        """Takes note of what the waiting agents of `rows` are doing now."""
        ...

    def tell(self, rows: Mapping[str, Rows], *, is_reset: bool, is_over: bool) -> bytes:
        """The call with these rows.

        is_reset: they begin everybody's episode. is_over: the academy reached its end, which has cut every episode.
        """
        ...
