"""Makes the captures of this repository again: `python -m tests.lab.record [NAME…] [--out captures]`.

Needs root (tcpdump), Java and mvn. Without names it makes all of them, and rewrites the manifest and its
README.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.lab import manifest, readme
from tests.lab.stage import Stage

SCENARIOS = (
    "steady",
    "rebalances",
    "broker_restart",
    "old_broker",
    "transactions",
    "cluster_life",
    "tls",
    "sasl",
    "neglect",
    "pause",
    "habits",
    "limping",
    "refusals",
    "expired",
    "rough_link",
    "starved",
    "clock_step",
)


def record(name: str, out: Path, keep: Path | None = None) -> None:
    """Make one capture and its manifest entry in `out`; `keep` is where logs stay for a look."""
    scenario = importlib.import_module(f".scenarios.{name}", __package__)
    with tempfile.TemporaryDirectory(prefix="kdissect-lab-") as scratch:
        folder = Path(scratch) if keep is None else keep / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        stage = Stage(name.replace("_", "-"), out / scenario.FILE, folder)
        scenario.record(stage)
        entry = stage.entry(scenario.TOLD)
    manifest.update(out / "manifest.json", entry)
    print(f"{entry['file']}: {entry['bytes']:,} bytes, {entry['packets']:,} packets, exact: {entry['exact']}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names", nargs="*", choices=[[], *SCENARIOS], help="which captures; all if none is named"
    )
    parser.add_argument("--out", type=Path, default=Path("captures"))
    parser.add_argument("--keep", type=Path, help="keep brokers' and clients' logs in this folder")
    wanted = parser.parse_args()
    if os.geteuid():
        parser.error("tcpdump needs root here")
    wanted.out.mkdir(parents=True, exist_ok=True)
    for name in wanted.names or SCENARIOS:
        start = time.monotonic()
        record(name, wanted.out, wanted.keep)
        print(f"  made in {time.monotonic() - start:.0f} s", flush=True)
    readme.write(wanted.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
