"""Each fault at each phase against the trainer's own links: what is restarted, what is refused, what is only noted."""

import math
import os
import re
import time
from pathlib import Path

import psutil
import pytest

from runtime.errors import (
    PlayerContentError,
    PlayerDiedError,
    PlayerError,
    PlayerProtocolError,
    PlayerTimeoutError,
    VersionMismatchError,
)
from runtime.players.factories import UnityPlayerFactory
from runtime.players.links import LinkLimits
from tests.support.faulty import LIMITS, faulty_link, faulty_memory_link, lived
from tests.support.player_links import assignment

SHORT = LinkLimits(start_timeout_s=8.0, step_timeout_s=2.0, close_timeout_s=1.0)
SHORT_START = LinkLimits(start_timeout_s=3.0, step_timeout_s=30.0, close_timeout_s=1.0)
WHERE = r"environment 2 \(incarnation 1\)"

ENDINGS = [
    ("crash:7@connect", "start: .*ended with exit code 7"),
    ("crash:SEGV@handshake", "was ended by SIGSEGV"),
    ("crash:KILL@exchange=1", "was ended by SIGKILL"),
    ("crash:9@reset", "env step 0: .*exit code 9"),
    ("crash:0@step=3", "env step 3: .*exit code 0"),
    ("crash:ABRT@step=3+before", "env step 3: .*SIGABRT"),
    ("rst@handshake", "exit code 0"),
    ("rst:37@reset", "env step 0: .*exit code 0"),
    ("rst:5@step=3", "env step 3: .*exit code 0"),
]
SILENCES = [
    ("hang@connect", SHORT_START, "has not connected for 3.0 s.*--timeout-wait"),
    ("hang@handshake", SHORT_START, "has not connected for 3.0 s.*--timeout-wait"),
    ("hang@exchange=1", SHORT_START, "has not connected for 3.0 s.*--timeout-wait"),
    ("hang@reset", SHORT, "env step 0: .*has not answered for 2.0 s.*is alive.*--step-timeout"),
    ("hang@step=3+before", SHORT, "env step 3: .*has not answered for 2.0 s"),
    ("delay:5000@step=3", SHORT, "env step 3: .*has not answered for 2.0 s"),
]
NO_MESSAGES = [
    "garbage@handshake",
    "garbage:1@exchange=1",
    "garbage@reset",
    "garbage:5000@step=3",
    "truncate@reset",
    "truncate:9@step=3",
]
CONTENTS = [
    ("nan:agent=0:index=2@step=3", "basic", r"env step 3: brain 'Basic', agent 0: observation 0 .* index 2 is nan"),
    ("inf:agent=2:sensor=1@reset", "hybrid", r"env step 0: brain 'Hybrid', agent 2: observation 1 .* index 0 is inf"),
    ("nan:field=reward@step=3", "balance", r"env step 3: brain 'Balance', agent 0: reward is nan"),
    ("inf:field=reward:agent=3@step=3", "balance", r"agent 3: reward is inf"),
    ("reshape@step=3", "basic", r"agent 0: observation 0 .* has shape \(21,\), expected \(20,\)"),
    ("mask:branch=1@reset", "masked", r"brain 'Masked', agent 0: all actions of branch 1 are masked"),
    ("mask@step=1", "basic", r"env step 1: brain 'Basic', agent 0: all actions of branch 0 are masked"),
]
LIES = [
    ("duplicate:agent=0@step=3", "basic", r"agent 0 asks for two decisions in one message"),
    ("stranger:Nobody@step=3", "basic", r"agents of brain 'Nobody', which was never announced.*Known: 'Basic'"),
    ("respec@step=3", "basic", r"'Basic'.*1000"),
]


def loss(kind: type[PlayerError], words: str, link: object, steps: int = 5) -> PlayerError:
    with pytest.raises(kind, match=f"(?s){WHERE}.*{words}") as caught:
        lived(link, steps)  # type: ignore[arg-type]
    assert type(caught.value) is kind
    return caught.value


@pytest.mark.parametrize(("fault", "words"), ENDINGS)
def test_a_player_that_ends_is_a_death_with_its_cause(fault: str, words: str) -> None:
    loss(PlayerDiedError, words, faulty_link(fault))


@pytest.mark.parametrize(("fault", "limits", "words"), SILENCES)
def test_a_player_that_says_nothing_is_a_time_out_and_is_ended(fault: str, limits: LinkLimits, words: str) -> None:
    loss(PlayerTimeoutError, words, faulty_link(fault, limits=limits))


@pytest.mark.parametrize(("fault", "words"), [("hang@reset", "env step 0"), ("delay:9000@step=3", "env step 3")])
def test_silence_in_memory_is_a_time_out_too(fault: str, words: str) -> None:
    limits = LinkLimits(start_timeout_s=5.0, step_timeout_s=0.2)
    loss(PlayerTimeoutError, f"{words}.*has not answered for 0.2 s", faulty_memory_link(fault, limits=limits))


@pytest.mark.parametrize("fault", ["crash:9@reset", "crash:9@step=3", "crash:9@step=3+before"])
def test_a_crash_in_memory_is_a_death_too(fault: str) -> None:
    loss(PlayerDiedError, "failed: CrashOrderedError: a crash that was asked for: 9", faulty_memory_link(fault))


@pytest.mark.parametrize("fault", NO_MESSAGES)
def test_bytes_that_are_no_message_are_a_protocol_error(fault: str) -> None:
    loss(PlayerProtocolError, "bytes that are no", faulty_memory_link(fault))


@pytest.mark.parametrize("fault", ["garbage@handshake", "truncate@step=3"])
def test_they_are_one_over_a_connection_too(fault: str) -> None:
    loss(PlayerProtocolError, "bytes that are no", faulty_link(fault))


@pytest.mark.parametrize("version", ["9.9.9", "0.15.0", "API-11", "1", ""])
def test_another_version_is_a_mismatch(version: str) -> None:
    loss(VersionMismatchError, re.escape(repr(version)), faulty_memory_link(f"version:{version}@handshake"))


@pytest.mark.parametrize(("fault", "scene", "words"), CONTENTS)
def test_content_is_refused_by_brain_agent_field_index_and_step(fault: str, scene: str, words: str) -> None:
    loss(PlayerContentError, words, faulty_memory_link(fault, scene))


@pytest.mark.parametrize(("fault", "scene", "words"), LIES)
def test_what_contradicts_itself_is_refused(fault: str, scene: str, words: str) -> None:
    loss(PlayerProtocolError, words, faulty_memory_link(fault, scene))


@pytest.mark.parametrize("fault", ["crash:3@close", "hang@close"])
def test_a_bad_end_after_the_end_is_nobodys_concern(fault: str) -> None:
    link = faulty_link(fault, limits=LinkLimits(start_timeout_s=60.0, step_timeout_s=30.0, close_timeout_s=1.0))
    began = time.monotonic()
    lived(link, 3)
    assert time.monotonic() - began < 40.0


def test_ten_thousand_agents_at_once_are_taken() -> None:
    driver = lived(faulty_memory_link("agents:10000@step=3"), 3)
    assert driver.reply is not None
    assert len(driver.reply.infos["Basic"].decisions) == 10_001


def test_no_agents_for_a_while_and_one_that_vanishes_are_taken() -> None:
    driver = lived(faulty_memory_link("empty@step=3-40;vanish:agent=1@step=45", "constant"), 39)
    assert driver.reply is not None
    assert len(driver.reply.infos["Constant"].decisions) == 0
    driver = lived(faulty_memory_link("empty@step=3-40;vanish:agent=1@step=45", "constant"), 50)
    assert driver.reply is not None
    assert driver.reply.infos["Constant"].decisions.agents.tolist() == [0, 2, 3]


def test_numbers_that_are_finite_are_taken_however_large() -> None:
    driver = lived(faulty_memory_link("huge:agent=0@step=3"), 3)
    assert driver.reply is not None
    (observation,) = driver.reply.infos["Basic"].decisions.observations
    assert observation.max() == pytest.approx(3e38)
    assert math.isfinite(observation.max())


def test_a_message_of_eight_mebibytes_passes() -> None:
    driver = lived(faulty_link("pad:mib=8@step=3"), 4)
    assert driver.reply is not None
    assert len(driver.reply.infos["Basic"].decisions) == 1


SIZES = [
    (6, PlayerProtocolError, r"a message of \d{7} bytes, the limit is 4194304 \(--message-bytes-max\)"),
    (24, PlayerProtocolError, r"a message of \d{8} bytes, the limit is 4194304"),
]


@pytest.mark.parametrize(("mib", "kind", "words"), SIZES)
def test_a_message_beyond_the_limit_breaks_the_connection_off(mib: int, kind: type[PlayerError], words: str) -> None:
    factory = UnityPlayerFactory(target=f"fake:basic?fault=pad:mib={mib}@step=3", run="test", message_bytes_max=4 << 20)
    loss(kind, words, factory.open_link(assignment(2, incarnation=1), LIMITS))


GEN1 = [
    ("nan:index=2@step=3", PlayerContentError, "brain 'WallJump', agent -1: .* index 2 is nan"),
    ("inf:field=reward@step=3", PlayerContentError, "brain 'WallJump', agent -1: reward is inf"),
    ("reshape@step=3", PlayerContentError, "21 vector observations, expected 20"),
    ("mask@step=1", PlayerContentError, "all actions of branch 0 are masked"),
    ("duplicate@step=3", PlayerProtocolError, "agent -1 asks for two decisions"),
    ("stranger@step=3", PlayerProtocolError, "agents of brain 'Stranger', which was not announced"),
    ("garbage@step=2", PlayerProtocolError, "64 bytes that are no UnityMessage"),
    ("version:API-12@handshake", VersionMismatchError, "'API-12'"),
    ("version@handshake", VersionMismatchError, "''"),
]


@pytest.mark.parametrize(("fault", "kind", "words"), GEN1)
def test_players_of_the_old_generation_are_refused_as_exactly(fault: str, kind: type[PlayerError], words: str) -> None:
    loss(kind, words, faulty_memory_link(fault, "walljump?protocol=API-9&agents=2"))


def test_old_players_that_hide_agents_or_bring_a_crowd_are_taken() -> None:
    for fault in ("empty@step=2-3", "agents:500@step=2", "vanish@step=2", "pad:mib=5@step=2"):
        assert lived(faulty_memory_link(fault, "walljump?protocol=API-9&agents=2"), 5).reply is not None


def test_a_flood_is_bounded_and_said_once(tmp_path: Path) -> None:
    lived(faulty_link("flood:mib=24@step=2", logs=tmp_path), 4)
    (log,) = tmp_path.glob("Player-2.log")
    text = log.read_bytes()
    assert len(text) < (1 << 20) + 10_000
    assert text.count(b"[the rest of what the player printed is left out]") == 1


@pytest.mark.parametrize("ending", ["crash:5@step=4", "crash@close"])
def test_a_child_that_would_outlive_its_player_goes_with_it(ending: str, tmp_path: Path) -> None:
    link = faulty_link(f"fork:s=300@step=2;{ending}", logs=tmp_path)
    if "step" in ending:
        loss(PlayerDiedError, "exit code 5", link)
    else:
        lived(link, 5)
    (line,) = [line for line in (tmp_path / "Player-2.log").read_text().splitlines() if line.startswith("child ")]
    child = int(line.split()[1])
    assert child != os.getpid()
    if psutil.pid_exists(child):
        psutil.Process(child).wait(10.0)
    assert not psutil.pid_exists(child)
