"""Installs players that misbehave in one environment, and, if asked, only the first time they are started there."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

SCRIPT = """#!{python}
import os, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.support import scripted_player
is_meant = {env_id} in (-1, int(os.environ["FAKEUNITY_ENV_ID"]))
once = Path({once!r}) if {once!r} else None
deeds = {deeds!r}
if not is_meant or (once is not None and once.exists()):
    deeds = []
elif once is not None:
    once.touch()
{before}
sys.exit(scripted_player.main([*sys.argv[1:], *(word for deed in deeds for word in ("--do", deed))]))
"""


def install(folder: Path, *deeds: str, env_id: int = -1, once: bool = False, before: str = "") -> str:
    """An executable player that does these deeds of `scripted_player`; its path.

    env_id: in this environment only, -1 for all. once: only the first player does. before: Python that it runs first.
    """
    file = folder / "player.x86_64"
    marker = str(folder / "was-here") if once else ""
    text = SCRIPT.format(
        python=sys.executable, root=str(ROOT), env_id=env_id, once=marker, deeds=list(deeds), before=before
    )
    file.write_text(text)
    file.chmod(0o755)
    return str(file)
