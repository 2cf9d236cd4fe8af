"""A process that fuzzes one target led by coverage: inputs that reach new code are kept and changed further.

    python -m tests.fuzz.guided NAME SECONDS SEED DIR PROGRESS

Atheris does it, if that is installed. It watches Python's own code, so kernels run uncompiled, and it ends
the process that it ran in. Its finds lie in DIR/corpus/NAME, where the next run goes on; `distil`
makes the small corpora of that.
"""

import os
import sys
from pathlib import Path
from random import Random

MAX_BYTES = 1 << 14
HEAD = 5  # bytes of a case that say what the rest is
KEPT_AS_SEED = "seed-"  # how files of the folder begin that are no findings of atheris


def guide(name: str, seconds: float, seed: int, out: Path, progress_path: Path) -> None:
    """Fuzz a target for so many seconds. Does not return."""
    import atheris

    with atheris.instrument_imports(include=["kdissect"]):
        from tests.fuzz.case import from_bytes, to_bytes
        from tests.fuzz.corpus import corpus_of
        from tests.fuzz.damage import damaged
        from tests.fuzz.progress import Progress
        from tests.fuzz.worker import Findings, bound, spent_s

    cases = corpus_of(name)
    folder = out / "corpus" / name
    folder.mkdir(parents=True, exist_ok=True)
    for number, case in enumerate(cases):
        if len(case.data) <= MAX_BYTES:
            (folder / f"{KEPT_AS_SEED}{number}").write_bytes(to_bytes(case))
    progress, findings, began_s = Progress(progress_path), Findings(name, out), spent_s()

    def read_one(data: bytes) -> None:
        if len(data) > HEAD:
            progress.begin(data)
            findings.read(from_bytes(data))
            if progress.executions % 100 == 0:
                progress.new_coverage = sum(not it.name.startswith(KEPT_AS_SEED) for it in os.scandir(folder))
            progress.end(spent_s() - began_s)

    def change(data: bytes, most: int, number: int) -> bytes:
        chance = Random(number)
        if chance.random() < 0.3 or len(data) <= HEAD:
            return bytes(atheris.Mutate(data, most))
        return (data[:HEAD] + damaged(chance, data[HEAD:], chance.choice(cases).data))[:most]

    bound(name)
    options = [f"-max_total_time={int(seconds)}", f"-seed={seed}", f"-max_len={MAX_BYTES}"]
    quiet = ["-verbosity=0", "-rss_limit_mb=6000", "-timeout=600"]
    atheris.Setup([sys.argv[0], *options, *quiet, str(folder)], read_one, custom_mutator=change)
    atheris.Fuzz()


if __name__ == "__main__":
    guide(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]), Path(sys.argv[5]))
