"""The text of the project speaks to its readers only: no machine's paths, no registry hosts, no missing documents."""

import re
from pathlib import Path

import pytest

from tests.tidy.sources import ROOT, is_generated, name_of, project_files

# Written in pieces, so that this file does not find itself.
FORBIDDEN = {
    "a path of one machine": [
        r"(?<![\w.])/" + r"root\b",
        r"(?<![\w.])/" + r"work/",
        r"(?<![\w.])/" + r"opt/wheels",
        r"\.py" + r"env\b",
        r"/home/" + r"\w+",
    ],
    "a package registry's host": [
        r"py" + r"pi\.org",
        r"python" + r"hosted\.org",
        r"npm" + r"js\.org",
        r"deb" + r"ian\.org",
        r"proxy\." + r"golang",
    ],
    "a word about how this was written, not about what it is": [
        r"(?i)\bsit" + r"tings?\b",
        r"(?i)\bmain " + r"session\b",
        r"(?i)\bsub" + r"agents?\b",
        r"(?i)\blanguage " + r"model\b",
        r"(?i)\bprompt" + r"ed\b",
    ],
}
DOCUMENT = re.compile(r"(?<![\w./<{*-])(?:[\w.-]+/)*[\w-]+\.md\b")


def faults_in(text: str) -> list[str]:
    """What is forbidden in a text, one line per finding: line number, kind, and the word."""
    return [
        f"{text.count(chr(10), 0, match.start()) + 1}: {kind}: {match.group()!r}"
        for kind, patterns in FORBIDDEN.items()
        for pattern in patterns
        for match in re.finditer(pattern, text)
    ]


def missing_documents(text: str, folder: Path) -> list[str]:
    """Documents that a text names and that are neither beside it, nor at the root, nor under docs/ or tests/."""
    places = (folder, ROOT, ROOT / "docs", ROOT / "tests")
    return [name for name in DOCUMENT.findall(text) if not any((place / name).is_file() for place in places)]


def test_no_file_holds_a_forbidden_word() -> None:
    files = project_files()
    assert files
    faults = [f"{name_of(path)}:{fault}" for path in files for fault in faults_in(path.read_text(encoding="utf-8"))]
    assert not faults, "\n".join(faults)


def test_documents_that_are_named_exist() -> None:
    faults = [
        f"{name_of(path)}: {name}"
        for path in project_files()
        if not is_generated(path)
        for name in missing_documents(path.read_text(encoding="utf-8"), path.parent)
    ]
    assert not faults, "named, but not part of the project:\n" + "\n".join(faults)


@pytest.mark.parametrize("words", ["see /" + "root/notes", "in this sit" + "ting", "https://py" + "pi.org/simple"])
def test_a_forbidden_word_is_found_with_its_line(words: str) -> None:
    assert [fault.split(":")[0] for fault in faults_in(f"fine\n{words}\n")] == ["2"]


def test_similar_words_are_not_forbidden() -> None:
    assert faults_in("a/root/b, work/c, at the root of /workspace, sitting_duck, pypi") == []


def test_a_document_that_does_not_exist_is_found(tmp_path: Path) -> None:
    beside, absent = "beside" + ".md", "absent" + ".md"
    (tmp_path / beside).touch()
    assert missing_documents(f"See `{beside}`, README.md and docs/{absent}.", tmp_path) == [f"docs/{absent}"]
