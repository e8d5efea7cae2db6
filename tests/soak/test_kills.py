"""Thirty kills of each kind of process, drawn over the whole life of a run (tox -e kills)."""

import sys
from pathlib import Path

import pytest

from tests.soak.kills import VICTIMS, Life, figures, kills, measured

pytestmark = pytest.mark.soak
COUNT = 30
SEED = 2019


@pytest.fixture(scope="session")
def life(tmp_path_factory: pytest.TempPathFactory) -> Life:
    return measured(Life(), tmp_path_factory.mktemp("undisturbed"))


@pytest.mark.parametrize("victim", VICTIMS)
def test_thirty_kills_at_random_instants_are_survived(tmp_path: Path, life: Life, victim: str) -> None:
    done = kills(victim, COUNT, SEED, life, folder=tmp_path / "runs")
    sys.stdout.write(f"{victim}: {figures(done)}\n")
    assert len(done) == COUNT
