"""The released clients show of every fault what they are known to show, or the table says why that is nothing."""

import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fakeunity.faults.plan import parse_plan
from fakeunity.faults.verbs import VERBS
from tests.peers.fault_cases import AGENTS, CHILD_S, STEPS, TABLES, UNDEFINED, Case
from tests.peers.released import CLIENT_TIMEOUT_S, ROOT, absent, heard_client, interpreter

SCRIPTS = {"client-1.1.0": "wronged_client.py", "client-0.9.3": "wronged_old_client.py"}
SCRIPTS["client-0.8.2"] = SCRIPTS["client-0.9.3"]
VERSIONS = {"client-1.1.0": "1.5.0", "client-0.9.3": "API-9", "client-0.8.2": "API-8"}
CASES = [(client, case) for client, table in TABLES.items() for case in table]
# More than the scripts let their clients wait.
OUTWAITED_S = 20.0
Document = dict[str, Any]  # JSON: what the script prints


def wronged(client: str, fault: str, file: Path, port: int, folder: Path) -> tuple[Document, str]:
    """What a client noted, and all that it and the player wrote."""
    mark = f"time.sleep({CHILD_S})" if fault.startswith("fork") else ""
    noted, said = heard_client(client, SCRIPTS[client], str(file), str(port), str(STEPS), str(folder), mark)
    logs = "".join(log.read_text() for log in folder.glob("Player-*.log"))
    return noted, said + logs


@pytest.mark.peers
@pytest.mark.parametrize(("client", "case"), CASES, ids=lambda value: value.fault if isinstance(value, Case) else value)
def test_a_released_client_shows_what_it_is_known_to_show_of_a_fault(
    client: str, case: Case, fake_unity_player: Callable[..., Path], free_port: int, tmp_path: Path
) -> None:
    if not interpreter(client):
        pytest.skip(absent(client))
    file = fake_unity_player("basic", agents=AGENTS, protocol=VERSIONS[client], fault=case.fault)
    noted, written = wronged(client, case.fault, file, free_port, tmp_path)
    told = {key: value for key, value in noted.items() if key != "seen"}
    assert (noted["at"], noted["error"]) == (case.at, case.error), told
    assert re.search(re.escape(case.message), noted["message"]), told
    assert case.shows(noted["seen"]), str(noted["seen"])[:2000]
    assert noted["left"] == case.left
    for fault in parse_plan(case.fault).faults if case.is_seen else ():
        assert f"as ordered: {fault}" in written, "the fault has not happened"


@pytest.mark.peers
@pytest.mark.parametrize(
    ("client", "fault"),
    [("client-1.1.0", "crash@exchange=1"), ("client-0.9.3", "crash@step=2"), ("client-0.8.2", "hang@step=2")],
)
def test_where_the_table_says_that_a_client_waits_for_ever_it_outwaits_its_own_patience(
    client: str, fault: str, fake_unity_player: Callable[..., Path], free_port: int, tmp_path: Path
) -> None:
    if not interpreter(client):
        pytest.skip(absent(client))
    assert fault.partition("=2")[0] in UNDEFINED[client]
    file = fake_unity_player("basic", agents=AGENTS, protocol=VERSIONS[client], fault=fault)
    script = str(Path(__file__).with_name(SCRIPTS[client]))
    process = subprocess.Popen(
        [interpreter(client), script, str(file), str(free_port), str(STEPS), str(tmp_path), ""],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=OUTWAITED_S)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=CLIENT_TIMEOUT_S)


@pytest.mark.parametrize("client", TABLES)
def test_every_fault_is_tried_or_has_a_reason_why_not(client: str) -> None:
    tried = {fault.verb for case in TABLES[client] for fault in parse_plan(case.fault).faults}
    excused = {re.split("[:@]", place)[0] for place in UNDEFINED[client]}
    assert tried | excused == set(VERBS)
    assert all(UNDEFINED[client].values())


def test_the_page_on_faults_tells_what_the_clients_do_of_each() -> None:
    page = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
    section = page.split("## What the released clients do")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert sorted(name for row in rows for name in re.findall(r"`(\w+)`", row)) == sorted(VERBS)
