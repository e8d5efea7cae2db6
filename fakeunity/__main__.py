"""`python -m fakeunity`."""

import sys

from runtime.interrupts import end_silently


def command() -> int:
    """The entrance of the installed command."""
    end_silently()
    from fakeunity.cli import main  # noqa: PLC0415 - it takes long to load, in which Ctrl-C must be harmless already

    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(command())
