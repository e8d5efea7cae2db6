"""Actors that collect experience from Unity players and train policies on it; imports nothing heavy by itself."""

import sys


def _is_command() -> bool:
    """Whether this is `python -m runtime.…`: `-m` stands in `sys.argv` only while Python looks for that module."""
    named = sys.orig_argv[-len(sys.argv) :][:1] if sys.argv[:1] == ["-m"] else []
    return any(name.removeprefix("-m").startswith("runtime.") for name in named)


if _is_command():
    from runtime.interrupts import end_silently

    end_silently()  # the command's own module begins with what takes long to load
