"""Records of actors cannot move a cursor or pass for other records, whatever players put into them."""

import logging

from hypothesis import given
from hypothesis import strategies as st

from runtime.actors.spawning import FieldFormatter


def formatted(text: str, *, field: str = "x", error: BaseException | None = None) -> str:
    info = None if error is None else (type(error), error, None)
    record = logging.LogRecord("name", logging.INFO, __file__, 1, "%s", (text,), info)
    record.field = field
    return FieldFormatter("%(levelname)s: %(message)s").format(record)


def test_a_record_keeps_its_lines_and_loses_what_moves_a_cursor() -> None:
    told = formatted("brain \x1b[2J\r'Bot'\nERROR forged", field="\x07")
    assert told == "INFO: brain \\x1b[2J\\r'Bot'\n    ERROR forged field='\\x07'"


def test_a_traceback_is_indented_and_escaped_too() -> None:
    assert formatted("failed", error=ValueError("\x1b]0;title\x07\nINFO: forged")).splitlines()[1:] == [
        "    ValueError: \\x1b]0;title\\x07",
        "    INFO: forged",
    ]


@given(st.text(), st.text())
def test_no_text_begins_a_line_of_its_own(text: str, field: str) -> None:
    first, *others = formatted(text, field=field, error=ValueError(text)).split("\n")
    assert first.startswith("INFO: ")
    assert all(line.startswith("    ") for line in others)
    assert all(line.isprintable() for line in (first, *others))
