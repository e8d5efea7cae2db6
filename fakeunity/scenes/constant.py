"""`constant`: nothing matters. Reward 1 at every step, interrupted after 20, always the same observation (1.0).

One branch of 2, both without effect. Best return: 20, which every policy gets. As the end is a time limit only, the
value of the one state is 1 / (1 - gamma), whatever the policy.
"""

from __future__ import annotations

import numpy as np

from fakeunity.rows import Actions, BehaviorSpec, Bools, Floats, Ints, ObservationSpec
from fakeunity.scenes.steady import SteadyWorld


class Constant(SteadyWorld):
    """A state without a future worth planning for."""

    spec = BehaviorSpec("Constant", (ObservationSpec("VectorSensor_size1", 1),), branches=(2,))
    steps_max = 20

    def begin(self, who: Ints) -> None:
        """There is nothing to set up."""

    def advance(self, actions: Actions) -> tuple[Floats, Bools]:
        """Reward 1, never an end."""
        return np.ones(self.agents, np.float32), np.zeros(self.agents, np.bool_)

    def observe(self) -> tuple[Floats, ...]:
        """One 1."""
        return (np.ones((self.agents, 1), np.float32),)
