"""Jobs beside the controller's own thread: none is cut off by the end of the interpreter."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
PROGRAM = """
import atexit, sys, threading
from pathlib import Path
from types import SimpleNamespace
from runtime.actors.controller_part import Background, await_jobs
from runtime.actors.inline import before_libraries_end
from runtime.reporting.timers import TimeBook

host = SimpleNamespace(post=lambda function: function())
before_libraries_end(await_jobs)
# As a library does that is loaded later, and into which the job has gone.
atexit.register(lambda: print("clean-up", Path(sys.argv[1]).exists(), flush=True))
background = Background("learner", host, TimeBook())
has_begun, never = threading.Event(), threading.Event()

def job():
    has_begun.set()
    never.wait(0.5)  # as native code does, it goes on while the main thread leaves
    Path(sys.argv[1]).write_text("done")

background.submit("work", job, lambda result, took_s: None)
has_begun.wait(30.0)
"""


def test_a_program_that_ends_while_a_job_runs_lets_it_end_first(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    command = [sys.executable, "-c", PROGRAM, str(mark)]
    said = subprocess.run(command, cwd=ROOT, check=True, timeout=60.0, capture_output=True, text=True).stdout
    assert mark.read_text() == "done"
    assert said == "clean-up True\n"
