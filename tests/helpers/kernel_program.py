"""A program with kernels of its own, and a cache for them."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path


def kernel_program(folder: Path, source: str) -> Callable[[str], str]:
    """Return a function that runs the program with an argument, and returns what it printed."""
    program = folder / "kernels.py"
    program.write_text(source)

    def printed(argument: str) -> str:
        environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / "cache")}
        command = [sys.executable, str(program), argument]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    return printed
