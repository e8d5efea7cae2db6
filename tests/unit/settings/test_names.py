"""Names of behaviors as names of files: safe everywhere, and different names stay different."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.settings import behavior_name, clean_name

names = st.text(max_size=100) | st.text("aA./\\ .-_:?", max_size=8) | st.sampled_from(["", ".", "..", "con", "NUL.txt"])


@pytest.mark.parametrize("name", ["Basic", "3D Ball_v1.2-x", "a" * 64, "console"])
def test_safe_names_stay_as_they_are(name: str) -> None:
    assert clean_name(name) == name


@pytest.mark.parametrize(
    ("brain", "behavior"),
    [("Goalie?team=0", "Goalie"), ("Goalie?team=12", "Goalie"), ("Goalie", "Goalie"), ("A?team=x", "A?team=x")],
)
def test_the_team_is_no_part_of_a_behaviors_name(brain: str, behavior: str) -> None:
    assert behavior_name(brain) == behavior
    assert clean_name(brain) == clean_name(behavior)


@pytest.mark.parametrize(
    ("name", "cleaned"),
    [
        ("../../etc/passwd", "_.._etc_passwd"),
        ("Läufer", "L_ufer"),
        (".hidden", "hidden"),
        ("..", "_"),
        ("", "_"),
        ("nul", "_nul"),
        ("COM1.onnx", "_COM1.onnx"),
        ("checkpoints", "checkpoints"),
        ("Run_Logs", "Run_Logs"),
        ("summary.json", "summary.json"),
        ("Configuration.yaml", "Configuration.yaml"),
        ("dot.", "dot."),
        ("a" * 65, "a" * 48),
    ],
)
def test_unsafe_names_are_cleaned_and_get_digits_of_their_hash(name: str, cleaned: str) -> None:
    found = clean_name(name)
    assert re.fullmatch(re.escape(cleaned) + "-[0-9a-f]{8}", found)


@given(names)
def test_any_name_becomes_a_safe_one(name: str) -> None:
    found = clean_name(name)
    assert re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9 _.-]{0,63}", found)
    assert found not in {"checkpoints", "run_logs"}
    assert clean_name(found) == found, "a cleaned name is safe"


@given(names, names)
def test_different_behaviors_get_different_names(one: str, other: str) -> None:
    assert (clean_name(one) == clean_name(other)) == (behavior_name(one) == behavior_name(other))
