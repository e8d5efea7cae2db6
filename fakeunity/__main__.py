"""`python -m fakeunity`."""

import sys

from fakeunity.cli import main


def command() -> int:
    """The entrance of the installed command."""
    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(command())
