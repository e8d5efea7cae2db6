"""Players are found where users of each system expect it, and what is missing is named with what was tried."""

from pathlib import Path

import pytest

from runtime.errors import UsageError
from runtime.players.executables import find_executable


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("written", ["Game", "Game.x86_64", "Game.exe", "Game.app"])
def test_linux_finds_a_build_by_its_name_with_any_suffix(tmp_path: Path, written: str) -> None:
    file = executable(tmp_path / "Game.x86_64")
    assert find_executable(tmp_path / written, platform="linux") == file


def test_linux_prefers_the_very_file_then_the_64_bit_one(tmp_path: Path) -> None:
    both = executable(tmp_path / "Game.x86_64"), executable(tmp_path / "Game.x86")
    assert find_executable(tmp_path / "Game", platform="linux") == both[0]
    exact = executable(tmp_path / "Game")
    assert find_executable(tmp_path / "Game", platform="linux") == exact
    assert find_executable(tmp_path / "Game.x86", platform="linux") == both[1]


def test_linux_looks_into_a_builds_folder(tmp_path: Path) -> None:
    file = executable(tmp_path / "build" / "Any.x86_64")
    assert find_executable(tmp_path / "build", platform="linux") == file


def test_a_folder_whose_name_looks_like_a_suffix_is_left_alone(tmp_path: Path) -> None:
    file = executable(tmp_path / "my.app2" / "v1.exe" / "Game.x86_64")
    assert find_executable(tmp_path / "my.app2" / "v1.exe" / "Game", platform="linux") == file


def test_macos_finds_the_executable_inside_a_renamed_application(tmp_path: Path) -> None:
    file = executable(tmp_path / "New.app" / "Contents" / "MacOS" / "Old")
    for written in ("New", "New.app"):
        assert find_executable(tmp_path / written, platform="darwin") == file


def test_windows_adds_exe_and_skips_the_crash_handler(tmp_path: Path) -> None:
    executable(tmp_path / "build" / "UnityCrashHandler64.exe")
    file = executable(tmp_path / "build" / "Game.exe")
    assert find_executable(tmp_path / "build" / "Game", platform="win32") == file
    assert find_executable(tmp_path / "build", platform="win32") == file


def test_what_is_not_there_is_named_with_what_was_tried(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"player not found: .*Nope'; tried .*Nope\.x86_64, .*Nope\.x86") as caught:
        find_executable(tmp_path / "Nope", platform="linux")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"echo hi\n", "a text without a first line such as #!/bin/sh"),
        ("é\n".encode(), "a text"),
        (b"", "an empty file"),
    ],
)
def test_a_text_that_does_not_say_what_runs_it_is_refused_before_it_is_tried(
    tmp_path: Path, content: bytes, what: str
) -> None:
    executable(tmp_path / "Game").write_bytes(content)
    with pytest.raises(UsageError, match=f"Game' cannot be started: it is {what}") as caught:
        find_executable(tmp_path / "Game", platform="linux")
    assert caught.value.exit_code == 2
    assert find_executable(tmp_path / "Game", platform="win32").name == "Game"


@pytest.mark.parametrize(
    "content", [b"#!/bin/sh\n", b"\x7fELF\2\1\1", b"MZ\x90\0", b"#!/x\n\0", b"\xcf\xfa\xed\xfe\7\0"]
)
def test_what_the_system_may_know_how_to_start_is_left_to_it(tmp_path: Path, content: bytes) -> None:
    executable(tmp_path / "Game").write_bytes(content)
    assert find_executable(tmp_path / "Game", platform="linux").name == "Game"


def test_a_file_that_may_not_be_executed_is_named_with_the_cure(tmp_path: Path) -> None:
    (tmp_path / "Game.x86_64").write_text("")
    (tmp_path / "Game.x86_64").chmod(0o644)
    with pytest.raises(UsageError, match="may not be executed; allow it with: chmod -R 755"):
        find_executable(tmp_path / "Game", platform="linux")
