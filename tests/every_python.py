"""The quick tests under every Python that this machine has: `python -m tests.every_python`.

In: the interpreters on the path, and those of pyenv and uv, from `requires-python` of pyproject.toml on. Out:
one line for each minor version, and what failed. The exit code is 1 if a version fails or cannot be set up,
and 2 if there is no such version.

Each version has a virtual environment in the user's cache, with what pyproject.toml names for tests and
nothing of kdissect, which is imported from the checkout. It is made again when those requirements change.
"""

from __future__ import annotations

import argparse
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACES = ("~/.pyenv/versions/*/bin", "~/.local/share/uv/python/*/bin", "/opt/python*/bin", "/usr/local/bin")
QUICK = ("-m", "pytest", "-m", "quick", "-n", "2", "-q", "-p", "no:cacheprovider", "--no-header")
COMPILE = ("-m", "kdissect.spark.startup.compile_kernels", "0")  # or the first test would wait for minutes
SUMMARY = re.compile(r"^=*\s*(\d+ .*(?:passed|failed|error).*?)\s*=*$")
SHOWN = 40  # lines of what a version that fails has printed

Version = tuple[int, int]


def project() -> dict[str, object]:
    """Return the table `project` of pyproject.toml."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)["project"]


def oldest() -> Version:
    """Return the oldest version that the project supports."""
    major, minor = re.findall(r"\d+", str(project()["requires-python"]))[:2]
    return int(major), int(minor)


def interpreters() -> dict[Version, Path]:
    """Return one interpreter that runs for every supported minor version."""
    found: dict[Version, Path] = {}
    for path in candidates():
        version, executable = asked(path)
        if version >= oldest():
            found.setdefault(version, executable)
    return dict(sorted(found.items()))


def candidates() -> Iterator[Path]:
    """Yield what is called python3 or python3.N on the path and in the usual places."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    for pattern in PLACES:
        folders += sorted(glob.glob(os.path.expanduser(pattern)))
    seen: set[Path] = set()
    for folder in map(Path, folders):
        for path in sorted(folder.glob("python3*")):
            if re.fullmatch(r"python3(\.\d+)?", path.name) and path.resolve() not in seen:
                seen.add(path.resolve())
                yield path


def asked(path: Path) -> tuple[Version, Path]:
    """Return the version of an interpreter and the file that it is, behind whatever starts it.

    The version is (0, 0) if it does not run, is in a virtual environment, or cannot make one.
    """
    print_facts = (
        "import sys, venv, ensurepip; assert sys.prefix == sys.base_prefix;"
        "print(*sys.version_info[:2], sys.executable)"
    )
    try:
        done = subprocess.run(
            [path, "-c", print_facts], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return (0, 0), path
    if done.returncode:
        return (0, 0), path
    major, minor, executable = done.stdout.strip().split(" ", 2)
    return (int(major), int(minor)), Path(executable)


def requirements() -> list[str]:
    """Return what the tests need, with extras of the project itself resolved."""
    table = project()
    extras: dict[str, list[str]] = table["optional-dependencies"]  # type: ignore[assignment]
    needed = [*table["dependencies"], *extras["test"]]  # type: ignore[misc]
    while own := [line for line in needed if line.startswith(f"{table['name']}[")]:
        needed.remove(own[0])
        for extra in own[0].split("[")[1].rstrip("]").split(","):
            needed += extras[extra.strip()]
    return sorted(set(needed))


def environment(version: Version, interpreter: Path) -> Path:
    """Return the interpreter of a version's virtual environment, made first if it is not there.

    Raise `subprocess.CalledProcessError` if it cannot be made.
    """
    needed = requirements()
    digest = hashlib.sha256("\n".join([str(interpreter.resolve()), *needed]).encode()).hexdigest()[:12]
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kdissect-tests"
    folder = base / f"python-{version[0]}.{version[1]}-{digest}"
    python, complete = folder / "bin" / "python", folder / "complete"
    if not complete.exists():
        shutil.rmtree(folder, ignore_errors=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        for command in ([interpreter, "-m", "venv", folder], [*pip, *needed]):
            subprocess.run(command, check=True, capture_output=True, text=True)
        complete.touch()
    return python


def run_quick(python: Path, arguments: list[str]) -> tuple[bool, str, str]:
    """Run the quick tests; return whether they pass, the line that sums them up, and the end of the
    output."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment = variables | {"PATH": f"{python.parent}{os.pathsep}{variables['PATH']}"}
    subprocess.run([python, *COMPILE], cwd=ROOT, env=environment, check=False)
    began = time.monotonic()
    done = subprocess.run(
        [python, *QUICK, *arguments],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    summaries = [match[1] for match in map(SUMMARY.match, lines) if match]
    line = summaries[-1] if summaries else f"ended with exit code {done.returncode}"
    return done.returncode == 0, f"{line} ({time.monotonic() - began:.0f} s)", "\n".join(lines[-SHOWN:])


def main(arguments: list[str] | None = None) -> int:
    """Run the quick tests under each version and print one line for it."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.every_python",
        description="Run the quick tests under every supported Python of this machine.",
        epilog="Other arguments are those of pytest, such as tests/protocol or -k name.",
    )
    parser.add_argument(
        "--python", action="append", default=[], metavar="VERSION", help="only this version, such as 3.12"
    )
    options, for_pytest = parser.parse_known_args(arguments)
    there = {f"{major}.{minor}": path for (major, minor), path in interpreters().items()}
    if missing := [version for version in options.python if version not in there]:
        print(f"no Python {missing[0]} on this machine; there are: {', '.join(there)}", file=sys.stderr)
        return 2
    failed = False
    for name in options.python or there:
        major, minor = name.split(".")
        try:
            python = environment((int(major), int(minor)), there[name])
        except subprocess.CalledProcessError as wrong:
            failed = True
            print(f"Python {name}: not set up\n{wrong.stderr[-2000:]}", flush=True)
            continue
        passed, summary, output = run_quick(python, for_pytest)
        failed |= not passed
        print(f"Python {name}: {'passed' if passed else 'FAILED'}: {summary}", flush=True)
        if not passed:
            print(output, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
