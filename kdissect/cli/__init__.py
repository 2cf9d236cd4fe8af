"""The command line. Exit codes: 0 done, 1 failed while working, 2 wrong arguments or input, 130 interrupted."""

from kdissect.cli.main import main

__all__ = ["main"]
