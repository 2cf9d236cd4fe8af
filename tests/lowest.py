"""The quick tests with the oldest versions that pyproject.toml allows: `python -m tests.lowest`.

In: the lower bounds of pyproject.toml, without the extras of users. Out: what failed, and exit code 1 if
something did. uv resolves (`--resolution lowest-direct`: the oldest version of each dependency that is named,
and the newest of what these need), in a virtual environment that is thrown away unless `--keep DIR` names it.
uv itself comes from PyPI into the same place, so nothing of the machine changes.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

ROOT = Path(__file__).parents[1]
QUICK = ("-m", "quick", "-q", "-p", "no:cacheprovider", "--no-header")

COMPILE = ("-m", "kdissect.spark.startup.compile_kernels", "0")  # or the first test would wait for minutes


def lowest_requirements(python: str, uv: str) -> list[str]:
    """Return what uv chooses, as pinned requirements.

    Raise CalledProcessError if bounds contradict each other.
    """
    command = [uv, "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--python", python]
    command += ["--resolution", "lowest-direct", "--extra", "test", str(ROOT / "pyproject.toml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.stderr.write(done.stderr)
        done.check_returncode()
    return [line for line in done.stdout.splitlines() if line and not line.startswith("#")]


def prepare(folder: Path) -> str:
    """Make the environment; return its Python."""
    python, tools = folder / "venv" / "bin" / "python", folder / "uv"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--target",
            str(tools),
            "uv",
        ],
        check=True,
    )
    uv = str(tools / "bin" / "uv")
    if not python.exists():
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(folder / "venv")], check=True)
    pinned = lowest_requirements(str(python), uv)
    print(*pinned, sep="\n", flush=True)
    wanted = folder / "lowest.txt"
    wanted.write_text("\n".join(pinned) + "\n", "utf-8")
    subprocess.run([uv, "pip", "install", "--quiet", "--python", str(python), "-r", str(wanted)], check=True)
    return str(python)


def run(folder: Path, more: Sequence[str]) -> int:
    """Run the quick tests in a folder; return the exit code of pytest."""
    environment = os.environ | {"XDG_CACHE_HOME": str(folder / "cache"), "PYTHONPATH": str(ROOT)}
    python = prepare(folder)
    subprocess.run([python, *COMPILE], cwd=ROOT, env=environment, check=False)
    return subprocess.run(
        [python, "-m", "pytest", *QUICK, *more], cwd=ROOT, env=environment, check=False
    ).returncode


def main() -> int:
    """Run the command; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.lowest", description=__doc__.partition("\n")[0])
    parser.add_argument("--keep", type=Path, metavar="DIR", help="make the environment there, and leave it")
    chosen, more = parser.parse_known_args()
    with (
        nullcontext(chosen.keep)
        if chosen.keep
        else tempfile.TemporaryDirectory(prefix="kdissect-lowest-") as folder
    ):
        return int(run(Path(folder).resolve(), more) != 0)


if __name__ == "__main__":
    sys.exit(main())
