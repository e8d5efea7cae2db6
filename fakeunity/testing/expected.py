"""What the scenes are worth."""

from __future__ import annotations

from fakeunity.errors import SpecError
from fakeunity.nearest import unknown_word
from fakeunity.scenes.catalogue import SCENES


def best_reward(scene: str) -> float:
    """The highest mean undiscounted return per episode of a scene. Raises SpecError, a ValueError, for no scene."""
    if scene not in SCENES:
        raise SpecError(unknown_word("scene", scene, SCENES))
    return SCENES[scene].best_reward
