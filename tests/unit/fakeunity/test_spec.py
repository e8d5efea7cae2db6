"""Player URLs: every legal one round-trips, every illegal one names the fault and the nearest known word."""

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakeunity.errors import SpecError
from fakeunity.memory import open_player
from fakeunity.protocols import NEWEST, PROTOCOLS, since
from fakeunity.scenes.catalogue import SCENES
from fakeunity.spec import PlayerSpec, from_options, parse_url

FOLDERS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20).map(Path)
BOUNDS_MS = st.tuples(st.floats(0, 1000), st.floats(0, 1000)).map(lambda pair: (min(pair), max(pair)))
PACKAGES = st.sampled_from(["1.0.8", "2.3.0-exp.3", "3.0.0"])


@st.composite
def specs(draw: st.DrawFn) -> PlayerSpec:
    """Any player that there can be."""
    scene = draw(st.sampled_from(sorted(SCENES)))
    protocol = PROTOCOLS[draw(st.sampled_from(since(SCENES[scene].since)))]
    is_newest = protocol.version == NEWEST
    return PlayerSpec(
        scene=scene,
        agents=draw(st.integers(1, 1024)),
        seed=draw(st.integers(-(2**63), 2**63 - 1)),
        link=draw(st.sampled_from(["grpc", "memory"])),
        delay_ms=draw(st.none() | BOUNDS_MS),
        journal=draw(st.none() | FOLDERS),
        protocol=protocol.version,
        layout=draw(st.sampled_from([None, "hwc", "chw"] if is_newest else [None, "hwc"])),
        package=None if protocol.is_gen1 else draw(st.none() | PACKAGES),
        stack=draw(st.integers(1, 50)),
        academy_steps=draw(st.integers(0, 2**31 - 1)) if protocol.is_gen1 else 0,
    )


SPECS = specs()


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
        (
            "fake:basic?protocol=API-11",
            "unknown protocol 'API-11'; did you mean 'API-10'? Known: API-8, API-9, API-10, 1.0.0",
        ),
        ("fake:basic?protocol=0.15.0", "unknown protocol '0.15.0'"),
        ("fake:basic?protocol=1.6.0", "unknown protocol '1.6.0'"),
        (
            "fake:hybrid?protocol=1.2.0",
            "continuous and discrete actions at once, which 1.2.0 cannot carry; its protocols are 1.3.0, 1.4.0, 1.5.0",
        ),
        ("fake:hybrid?protocol=API-9", "which API-9 cannot carry"),
        ("fake:buffer?protocol=1.4.0", "sees a changing number of things, which 1.4.0 cannot carry"),
        ("fake:pushblock_group?protocol=1.4.0", "rewards groups, which 1.4.0 cannot carry; its protocols are 1.5.0"),
        ("fake:basic?layout=cwh", "unknown layout 'cwh'; did you mean"),
        ("fake:basic?layout=chw&protocol=1.4.0", "pictures of 1.4.0 have their channels last"),
        ("fake:basic?protocol=API-8,layout=chw", "pictures of API-8 have their channels last"),
        ("fake:basic?package=3", "package='3': expected a version as in 2.0.1"),
        ("fake:basic?package=3.0.0&protocol=API-8", "players of API-8 do not tell their package"),
        ("fake:basic?stack=0", "stack='0': expected a whole number from 1 to 50"),
        ("fake:basic?academy_steps=0&protocol=API-8", "academy_steps='0'"),
        (
            "fake:basic?academy_steps=5",
            "the academy of 1.5.0 has no end; leave it out, or take one of API-8, API-9, API-10",
        ),
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


def test_a_player_of_the_old_generation_is_given_its_port_in_its_own_words() -> None:
    command = parse_url("fake:basic?protocol=API-9&stack=2").command_line(port=5007)
    assert command[3:] == ["basic", "--agents=1", "--seed=0", "--protocol=API-9", "--stack=2", "--port", "5007"]


def test_options_over_a_base_are_checked_together_with_it() -> None:
    base = parse_url("fake:hybrid?agents=2")
    with pytest.raises(SpecError, match="cannot carry"):
        from_options("hybrid", [("protocol", "API-8")], base)
    old = parse_url("fake:basic?protocol=API-8&academy_steps=3")
    assert from_options("basic", [("protocol", "API-10")], old).academy_steps == 3
    with pytest.raises(SpecError, match="has no end"):
        from_options("basic", [("protocol", "1.0.0")], old)


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
