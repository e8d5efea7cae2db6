"""Player URLs: every legal one round-trips, every illegal one names the fault and the nearest known word."""

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakeunity.errors import SpecError
from fakeunity.memory import open_player
from fakeunity.scenes.catalogue import SCENES
from fakeunity.spec import PlayerSpec, from_options, parse_url

FOLDERS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20).map(Path)
BOUNDS_MS = st.tuples(st.floats(0, 1000), st.floats(0, 1000)).map(lambda pair: (min(pair), max(pair)))
SPECS = st.builds(
    PlayerSpec,
    scene=st.sampled_from(sorted(SCENES)),
    agents=st.integers(1, 1024),
    seed=st.integers(-(2**63), 2**63 - 1),
    link=st.sampled_from(["grpc", "memory"]),
    delay_ms=st.none() | BOUNDS_MS,
    journal=st.none() | FOLDERS,
)


@given(SPECS)
def test_a_spec_survives_its_own_url_and_options(spec: PlayerSpec) -> None:
    assert parse_url(spec.url()) == spec
    assert from_options(spec.scene, spec.options().items()) == spec


@pytest.mark.parametrize(
    "url", ["fake:basic?agents=8&seed=3", "fake:basic?agents=8,seed=3", "fake:basic?seed=3,agents=8"]
)
def test_commas_stand_for_ampersands_and_order_does_not_matter(url: str) -> None:
    assert parse_url(url) == PlayerSpec("basic", 8, 3)


def test_defaults_are_the_scenes_own() -> None:
    assert parse_url("fake:basic") == PlayerSpec("basic", 1)
    assert parse_url("fake:crowd") == PlayerSpec("crowd", 8)


def test_all_keys_are_read() -> None:
    spec = parse_url("fake:hybrid?agents=2&seed=-5&link=memory&delay_ms=0.5-20&journal=/a%2Cb/c%26d")
    assert spec == PlayerSpec("hybrid", 2, -5, "memory", (0.5, 20.0), Path("/a,b/c&d"))


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("basic", "does not begin with 'fake:'"),
        ("fake:", "unknown scene ''"),
        ("fake:blance", "unknown scene 'blance'; did you mean 'balance'"),
        ("fake:basic?agent=3", "unknown key 'agent'; did you mean 'agents'"),
        ("fake:basic?delay=3-4", "unknown key 'delay'; did you mean 'delay_ms'"),
        ("fake:basic?seed=3&seed=3", "key 'seed' is given twice"),
        ("fake:basic?", "'' is no key=value"),
        ("fake:basic?agents", "'agents' is no key=value"),
        ("fake:basic?agents=0", "agents='0': expected a whole number from 1 to 1024"),
        ("fake:basic?agents=1025", "agents='1025'"),
        ("fake:basic?agents=2.0", "agents='2.0'"),
        ("fake:basic?agents=--2", "agents='--2'"),
        ("fake:basic?agents=²", "agents='²'"),
        ("fake:basic?seed=", "seed=''"),
        ("fake:basic?seed=9223372036854775808", "seed='9223372036854775808'"),
        ("fake:basic?link=memry", "unknown link 'memry'; did you mean 'memory'"),
        ("fake:basic?delay_ms=5", "delay_ms='5': expected A-B"),
        ("fake:basic?delay_ms=9-5", "delay_ms='9-5'"),
        ("fake:basic?delay_ms=-5-9", "delay_ms='-5-9'"),
        ("fake:basic?delay_ms=nan-nan", "delay_ms='nan-nan'"),
        ("fake:basic?delay_ms=0-inf", "delay_ms='0-inf'"),
        ("fake:basic?journal=", "journal='': expected a folder"),
    ],
)
def test_what_is_wrong_is_named(url: str, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_url(url)
    assert words in str(caught.value)
    assert isinstance(caught.value, ValueError)


@given(st.text(max_size=30))
def test_any_text_is_a_spec_or_a_spec_error(text: str) -> None:
    for url in (text, "fake:" + text, "fake:basic?" + text):
        try:
            spec = parse_url(url)
        except SpecError:
            continue
        assert parse_url(spec.url()) == spec


def test_the_command_line_runs_the_same_player() -> None:
    spec = parse_url("fake:balance?agents=2&delay_ms=1-2&journal=/j")
    command = spec.command_line(port=5007, env_id=2)
    assert command[:4] == [sys.executable, "-m", "fakeunity", "balance"]
    assert command[4:] == [
        *("--agents=2", "--seed=0", "--delay-ms=1.0-2.0", "--journal=/j", "--env-id=2", "--mlagents-port", "5007"),
    ]
    assert "--mlagents-port" not in spec.command_line()


def test_a_player_in_memory_has_no_command_line() -> None:
    with pytest.raises(ValueError, match="open_player"):
        parse_url("fake:basic?link=memory").command_line(port=5005)


def test_delays_stay_in_their_bounds_and_repeat_for_the_same_environment() -> None:
    def delays(url: str, env_id: int) -> list[float]:
        player = open_player(parse_url(url), env_id=env_id)
        return [player.next_delay_s() for _ in range(50)]

    first = delays("fake:basic?delay_ms=5-20", 0)
    assert all(0.005 <= delay <= 0.020 for delay in first)
    assert first == delays("fake:basic?delay_ms=5-20", 0)
    assert first != delays("fake:basic?delay_ms=5-20", 1)
    assert delays("fake:basic", 0) == [0.0] * 50
