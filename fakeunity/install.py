"""Writes an executable file that is a player of one scene, to be started by whatever starts Unity builds."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path

from fakeunity.spec import PlayerSpec

# The package's parent goes on the path because the package may not be installed. Python's -P keeps the folder from
# which the file is run off it, where a user's random.py could stand in for the library's.
PROGRAM = """\
import sys
if {parent!r} not in sys.path: sys.path.insert(0, {parent!r})
from runtime.interrupts import end_silently
end_silently()
from fakeunity.cli import main
sys.exit(main(sys.argv[1:], installed={url!r}))
"""

# A shebang may not hold blanks or more than 127 bytes, a path to an interpreter may: hence sh and exec, which keeps
# the process id.
SCRIPT = """\
#!/bin/sh
# A player of the scene {scene}; options given on the command line come before those it was installed with.
exec {python} -P -c {program} "$@"
"""


def script(spec: PlayerSpec, interpreter: str) -> str:
    """The text of an executable that plays `spec` with this very package, run by `interpreter`."""
    if spec.journal is not None:
        spec = replace(spec, journal=spec.journal.absolute())
    if spec.faults.once_folder is not None:
        spec = replace(spec, faults=replace(spec.faults, once_folder=spec.faults.once_folder.absolute()))
    if spec.file is not None:
        spec = replace(spec, file=spec.file.absolute())
    program = PROGRAM.format(parent=str(Path(__file__).resolve().parents[1]), url=spec.url())
    return SCRIPT.format(scene=spec.scene, python=shlex.quote(interpreter), program=shlex.quote(program))


def install(spec: PlayerSpec, file: Path, *, interpreter: str = sys.executable) -> None:
    """Writes exactly `file`, mode 0755, over whatever was there. Raises OSError."""
    file.write_text(script(spec, interpreter))
    file.chmod(0o755)
