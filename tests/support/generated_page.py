"""Pages of the documentation that a script writes: what such a script does with its arguments."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path


def write_or_check(arguments: Sequence[str], page: Path, text: Callable[[], str], script: str) -> int:
    """Writes the page, or with --check only says whether it is what would be written; the exit code."""
    if list(arguments) not in ([], ["--check"]):
        sys.stderr.write(f"unknown arguments {list(arguments)!r}; expected none or --check\n")
        return 2
    content = text()
    if arguments:
        is_fresh = page.is_file() and page.read_text(encoding="utf-8") == content
        sys.stdout.write(f"{page.name} is {'fresh' if is_fresh else f'stale: run python {script}'}\n")
        return 0 if is_fresh else 1
    page.write_text(content, encoding="utf-8")
    return 0
