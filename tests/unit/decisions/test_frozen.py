"""The quick `replace` of the decisions does what the library's does."""

from __future__ import annotations

import dataclasses

import pytest

from runtime.decisions.controller_state import ControllerOptions, ControllerPhase, ControllerState
from runtime.decisions.frozen import replace

STATE = ControllerState(options=ControllerOptions(run="r", environments=2), accepting=1)


@dataclasses.dataclass(frozen=True)
class Open:
    a: int = 1
    b: int = 2


@dataclasses.dataclass(frozen=True, slots=True)
class Checked:
    a: int = 1
    b: int = 2

    def __post_init__(self) -> None:
        if self.a > self.b:
            msg = "a is more than b"
            raise ValueError(msg)


@dataclasses.dataclass(frozen=True, slots=True)
class Longer(Checked):
    c: int = 3


def test_a_copy_differs_in_what_was_named_and_in_nothing_else() -> None:
    new = replace(STATE, phase=ControllerPhase.SAVING, updating=("Walker",))
    assert new == dataclasses.replace(STATE, phase=ControllerPhase.SAVING, updating=("Walker",))
    assert (STATE.phase, STATE.updating) == (ControllerPhase.GATHERING, ())
    assert type(new) is ControllerState


def test_a_copy_is_frozen_like_its_original() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        replace(STATE, accepting=3).accepting = 4  # type: ignore[misc]


def test_a_name_that_is_no_field_is_refused() -> None:
    with pytest.raises(TypeError, match="ControllerState has no field 'acepting'"):
        replace(STATE, acepting=3)  # type: ignore[call-arg]


def test_classes_that_check_themselves_or_have_no_slots_of_their_own_go_the_library_way() -> None:
    assert replace(Open(), b=5) == Open(1, 5)
    assert replace(Longer(), c=5) == Longer(1, 2, 5)
    with pytest.raises(ValueError, match="a is more than b"):
        replace(Checked(), a=7)
