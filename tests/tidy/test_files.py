"""Text files are plain: one newline at the end, no stray blanks or tabs, TOML and YAML that parse."""

import tomllib
from pathlib import Path

import pytest
import yaml

from tests.tidy.sources import PACKAGES, ROOT, is_generated, name_of, project_files, python_files

TABS_ALLOWED = frozenset({"Makefile"})


def blemishes(text: str, *, allows_tabs: bool = False) -> list[str]:
    """What an editor with a plain setting would have removed."""
    faults = []
    if text and (not text.endswith("\n") or text.endswith("\n\n")):
        faults.append("does not end with exactly one newline")
    if "\r" in text:
        faults.append("has a carriage return")
    if "\t" in text and not allows_tabs:
        faults.append("has a tab")
    faults += [f"line {n} ends with blanks" for n, line in enumerate(text.split("\n"), 1) if line != line.rstrip()]
    return faults


def test_text_files_are_plain() -> None:
    faults = [
        f"{name_of(path)}: {fault}"
        for path in project_files()
        if not is_generated(path) and path.name != "LICENSE"
        for fault in blemishes(path.read_text(encoding="utf-8"), allows_tabs=path.name in TABS_ALLOWED)
    ]
    assert not faults, "\n".join(faults)


def test_toml_and_yaml_parse() -> None:
    for path in project_files():
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".toml":
            assert tomllib.loads(text), name_of(path)
        if path.suffix in {".yaml", ".yml"}:
            assert yaml.safe_load(text) is not None, name_of(path)


def test_every_folder_with_code_is_a_package() -> None:
    folders = {path.parent for path in python_files(*PACKAGES, "tests")}
    faults = [name_of(folder) for folder in sorted(folders) if not (folder / "__init__.py").is_file()]
    assert not faults, "without an __init__.py, so it would be missing from the wheel: " + ", ".join(faults)


def test_packages_declare_that_they_are_typed() -> None:
    assert [name for name in PACKAGES if not (ROOT / name / "py.typed").is_file()] == []


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("fine\n", []),
        ("", []),
        ("open", ["does not end with exactly one newline"]),
        ("two\n\n", ["does not end with exactly one newline"]),
        ("a \n\tb\r\n", ["has a carriage return", "has a tab", "line 1 ends with blanks", "line 2 ends with blanks"]),
    ],
)
def test_blemishes_are_found(text: str, faults: list[str]) -> None:
    assert blemishes(text) == faults


def test_generated_files_are_known_by_name() -> None:
    assert is_generated(Path("a/communicator_pb2.py"))
    assert not is_generated(Path("a/communicator.py"))
