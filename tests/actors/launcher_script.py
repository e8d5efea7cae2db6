"""A launcher as a program of its own, for tests that kill it: says READY when its actors answer, then waits.

Run as `python launcher_script.py ROOT LOG [busy]`; with `busy` it keeps creating actors.
"""

import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])

from runtime.actors.system import open_actor_system
from tests.actors.samples import Parent
from tests.actors.steps import ANSWER_S, started

# Without a `__main__` guard on purpose: the processes of a run do not import the launcher's main module.
system = open_actor_system(run_id="killed", log_file=Path(sys.argv[2]))
parent = started(system, Parent)
for number in range(3):
    system.ask(parent, ("create", "slow"), ANSWER_S)
    system.ask(system.ask(parent, ("address", number), ANSWER_S), "ready?", ANSWER_S)
sys.stdout.write("READY\n")
sys.stdout.flush()
while True:
    if "busy" in sys.argv:
        _, index, _ = system.ask(parent, ("create", "echo"), ANSWER_S)
        system.ask(system.ask(parent, ("address", index), ANSWER_S), "ready?", ANSWER_S)
    else:
        system.listen(60.0)
