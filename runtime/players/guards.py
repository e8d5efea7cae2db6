"""Numbers that are not finite: refused with their place, or, if the user chose so, replaced by 0 and counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from runtime.errors import PlayerContentError
from runtime.experience.brains import Floats
from runtime.experience.finite import all_finite
from runtime.players.places import Place

NonFinite = Literal["refuse", "zero"]
"""What becomes of NaN and infinities of players: an error, or 0 as trainers of 2019 did with NaN."""


@dataclass(slots=True)
class Guard:
    """One message's gate for numbers. replaced: how many were not finite and became 0; first: where one was."""

    place: Place
    nonfinite: NonFinite = "refuse"
    replaced: int = 0
    first: str = ""

    def finite(self, values: Floats, refuse: Callable[[tuple[int, ...], np.float32], PlayerContentError]) -> Floats:
        """The same values when all are finite, or a copy with 0 for the others.

        refuse: the error for the first bad value, given its indices. Raised unless zeros were chosen.
        """
        if all_finite(values):
            return values
        good = np.isfinite(values)
        if self.nonfinite == "refuse" or not self.replaced:
            at = tuple(int(each) for each in np.argwhere(~good)[0])
            error = refuse(at, values[at])
            if self.nonfinite == "refuse":
                raise error
            self.first = str(error)
        self.replaced += int(good.size - np.count_nonzero(good))
        return np.where(good, values, np.float32(0))
