"""`python -m kdissect`: the same as the command `kdissect`."""

import sys

from kdissect.cli import main

if __name__ == "__main__":
    sys.exit(main())
