"""Are these numbers all finite? Asked of every reply and every act, so the usual yes must cost next to nothing."""

from __future__ import annotations

import numpy as np

from runtime.experience.brains import Floats


def all_finite(values: Floats) -> bool:
    """True when no number is infinite or NaN; values: float32 or float64 of any shape.

    Looked up in bytes, which takes a fifth of the time of `all` for a few numbers.
    """
    return b"\x00" not in np.isfinite(values).tobytes()
