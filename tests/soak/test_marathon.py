"""A marathon of one minute: every kind of kill, every kind of end, and the run completes (tox -e kills)."""

import pytest

from tests.soak.marathon import Options, marathon
from tests.soak.schedule import VICTIMS

pytestmark = pytest.mark.soak


def test_a_minute_of_kills_keeps_every_promise() -> None:
    # A busy machine makes fewer of the fifteen; the tenth is the first of the TrainerController.
    report = marathon(Options(seed=2019, minutes=1.0, first=1, last=15, wanted=10, heart_every=5))
    assert not report.faults
    assert {each.victim for each in report.struck} == set(VICTIMS)
