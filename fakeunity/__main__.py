"""`python -m fakeunity`."""

import sys

from fakeunity.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
