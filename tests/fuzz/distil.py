"""The small corpora: of many inputs, the few that reach code which the seeds do not reach.

    python -m tests.fuzz --distil DIR/corpus

The folder has one folder of inputs for each target, as `guided` leaves them. Inputs are tried from the
smallest on, uncompiled, and one that reaches a new line of kdissect is kept in `corpus/NAME/`, at most MOST
of them.
"""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import kdissect
from tests.fuzz.case import Case, from_bytes, to_bytes
from tests.fuzz.corpus import KEPT, corpus_of
from tests.fuzz.guided import HEAD, KEPT_AS_SEED
from tests.fuzz.targets import TARGETS

MOST = 40  # inputs of a target
LARGEST = 4 << 10  # bytes of an input
LATEST = 2_000  # inputs that are tried
PACKAGE = str(Path(kdissect.__file__).parent)

Lines = set[tuple[str, int]]


def distil(folder: Path, names: list[str]) -> None:
    """Choose the corpora of targets, each in a process of its own."""
    for name in names:
        if (folder / name).is_dir():
            command = [sys.executable, "-m", "tests.fuzz.distil", str(folder / name), name]
            subprocess.run(command, env=os.environ | {"KDISSECT_JIT": "0"}, check=True)


def reached(target: Callable[[Case], None], case: Case) -> Lines:
    """Return the lines of kdissect that a case reaches."""
    lines: Lines = set()
    known: dict[CodeType, bool] = {}

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        code = frame.f_code
        if not known.setdefault(code, code.co_filename.startswith(PACKAGE)):
            return None
        if event == "line":
            lines.add((code.co_filename, frame.f_lineno))
        return trace

    sys.settrace(trace)
    try:
        target(case)
    except Exception:  # noqa: BLE001 - failures are looked for elsewhere
        return set()
    finally:
        sys.settrace(None)
    return lines


def choose(folder: Path, name: str) -> list[Case]:
    """Return the inputs of a folder that reach new lines."""
    target, seen = TARGETS[name], set()
    for seed in corpus_of(name)[:LATEST]:
        seen |= reached(target, seed)
    paths = [path for path in folder.iterdir() if not path.name.startswith(KEPT_AS_SEED)]
    sized = sorted((path.stat().st_size, path) for path in paths)
    chosen: list[Case] = []
    for size, path in sized[:LATEST]:
        if HEAD < size <= LARGEST and len(chosen) < MOST:
            case = from_bytes(path.read_bytes())
            lines = reached(target, case)
            if not lines <= seen:
                chosen.append(case)
                seen |= lines
    return chosen


def main(folder: str, name: str) -> None:
    """Choose the corpus of one target."""
    chosen = choose(Path(folder), name)
    for case in chosen:
        raw = to_bytes(case)
        (KEPT / name).mkdir(parents=True, exist_ok=True)
        (KEPT / name / f"{hashlib.sha256(raw).hexdigest()[:8]}.bin").write_bytes(raw)
    print(f"{name}: {len(chosen)} inputs kept", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
