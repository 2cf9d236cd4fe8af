"""Fuzzing guided by coverage: inputs that reach new code are kept and changed further, by atheris, if that is
installed.

    python -m tests.fuzz --guided --seconds 1200 [--target NAME ...] [--out DIR]

Atheris ends the process that it ran in, so every target has one of its own. Kernels run uncompiled there:
only Python's own code can be watched. What was kept lies in DIR/corpus-NAME and is where the next run goes
on.
"""

import os
import resource
import subprocess
import sys
from pathlib import Path
from random import Random

MAX_BYTES = 1 << 14
TOLD = 5  # bytes of a case that say what the rest is
GUIDED = ("codec", "records", "old", "embedded", "tls", "reader", "columns", "framing", "tcp")


def guide(names: list[str], seconds: float, seed: int, out: Path) -> int:
    """Fuzz one target after the other; give how many of them failed."""
    failed = 0
    for name in names:
        (out / f"corpus-{name}").mkdir(parents=True, exist_ok=True)
        command = [
            sys.executable,
            "-m",
            "tests.fuzz.guided",
            name,
            str(seconds / len(names)),
            str(seed),
            str(out),
        ]
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        done = subprocess.run(command, env=os.environ | {"KDISSECT_JIT": "0"}, check=False)
        spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        print(f"{name:12} {spent:>8,.0f} s of processor time", flush=True)
        failed += bool(done.returncode)
    return failed


def _one(name: str, seconds: float, seed: int, out: Path) -> None:
    import atheris

    with atheris.instrument_imports(include=["kdissect"]):
        from tests.fuzz.__main__ import corpus_of, read, watch
        from tests.fuzz.case import from_bytes, to_bytes
        from tests.fuzz.damage import damaged

    cases = corpus_of(name)
    folder = out / f"corpus-{name}"
    for number, case in enumerate(cases):
        if len(case.data) <= MAX_BYTES:
            (folder / f"seed-{number}").write_bytes(to_bytes(case))
    found: dict[tuple[str, str], Path] = {}

    def one(data: bytes) -> None:
        if len(data) > TOLD:
            read(name, from_bytes(data), found, out)

    def change(data: bytes, most: int, number: int) -> bytes:
        chance = Random(number)
        if chance.random() < 0.3 or len(data) <= TOLD:
            return atheris.Mutate(data, most)
        return (data[:TOLD] + damaged(chance, data[TOLD:], chance.choice(cases).data))[:most]

    watch()
    options = [
        f"-max_total_time={int(seconds)}",
        f"-seed={seed}",
        f"-max_len={MAX_BYTES}",
        "-print_final_stats=1",
    ]
    quiet = ["-verbosity=0", "-rss_limit_mb=6000", "-timeout=600"]
    atheris.Setup([sys.argv[0], *options, *quiet, str(folder)], one, custom_mutator=change)
    atheris.Fuzz()


if __name__ == "__main__":
    _one(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
