"""All mutants, by name."""

from __future__ import annotations

from tests.mutants.endings import ENDINGS
from tests.mutants.grants import GRANTS
from tests.mutants.ledger import LEDGER
from tests.mutants.lessons import LESSONS
from tests.mutants.mutant import Mutant
from tests.mutants.restarts import RESTARTS
from tests.mutants.riding import RIDING

MUTANTS: dict[str, Mutant] = {each.name: each for each in (*LEDGER, *RESTARTS, *GRANTS, *RIDING, *LESSONS, *ENDINGS)}
