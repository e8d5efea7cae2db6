"""Mutants of grants that travel with a policy: `runtime/decisions/riding.py`, and who passes them on.

A grant that is lost on the way is given again after half a second, so of what only loses some, nothing is seen.
"""

from __future__ import annotations

from tests.mutants.mutant import mutant

RIDING = (
    mutant(
        "rides_never_missed",
        "a grant that a PolicyHolder holds back is not given again",
        "riding",
        "    if not late:\n        return state, ()",
        "    if not late or waited_periods:\n        return state, ()",
    ),
    mutant(
        "rides_of_others",
        "a worker is sent the grants of all",
        "policy_holder",
        "for each, grant in update.grants.items() if each == worker",
        "for each, grant in update.grants.items()",
    ),
)
