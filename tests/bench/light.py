"""The benchmark in under a minute: kdissect against tshark on one capture of about 100 MB, in one run.

    python -m tests.bench.light [--folder DIR] [--anchor PROGRAM]

The capture is `captures/steady.pcapng`, real traffic of a small cluster, repeated with new ports and times.
Fails when in none of three turns kdissect is half as many times as fast as tshark as `reports/bench.json`
says it was; where that says nothing, it only prints. With `--anchor` a native program reads the capture too,
and processor time may be no more than twice as many times the anchor's as recorded. Which kdissect runs is
for the environment to say, as for any import.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.bench.commands import REPOSITORY, anchor, kdissect, tshark
from tests.bench.measure import run

SOURCE = REPOSITORY / "captures" / "steady.pcapng"
RECORD = REPOSITORY / "reports" / "bench.json"
BYTES = 100_000_000
LEAST = 0.5  # of what is recorded
# Until one is good: others may be using the machine, which costs the program with more processes more.
TURNS = 3
MAKE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.bench.synthesis import read_packets, synthesise
source = Path(sys.argv[2])
synthesise("again", source, Path(sys.argv[3]), int(sys.argv[4]), 0, 0)
print(*sorted({int(port) for port in read_packets(source).server_port}))
"""


def made(folder: Path) -> tuple[Path, list[int]]:
    """Make the capture; give it with the ports of its servers."""
    source, target = folder / "steady.pcap", folder / "light.pcap"
    subprocess.run(["editcap", "--discard-all-secrets", "-F", "pcap", str(SOURCE), str(source)], check=True)
    # A thousandth of the capture is read, once: that is not worth compiling for.
    command = [sys.executable, "-c", MAKE, str(REPOSITORY), str(source), str(target), str(BYTES)]
    told = subprocess.run(
        command, env=os.environ | {"KDISSECT_JIT": "0"}, check=True, capture_output=True, text=True
    )
    return target, [int(port) for port in told.stdout.split()]


def measured(folder: Path, native: Path | None = None) -> dict[str, Any]:
    """Run both commands in turn; kdissect, whose runs are short, twice, after one that tells its memory."""
    path, ports = made(folder)
    peak = run(kdissect(path, "--quiet"), all_memory=True).peak_mib
    ours = [run(kdissect(path, "--quiet"))]
    theirs = run(tshark(path, ports))
    ours.append(run(kdissect(path, "--quiet")))
    beside = {}
    if native:
        used = statistics.mean(one.processor_seconds for one in ours)
        beside["times_the_anchor"] = round(
            used / max(run(anchor(native, path, ports)).processor_seconds, 0.01), 1
        )
    seconds = {"kdissect": statistics.mean(one.seconds for one in ours), "tshark": theirs.seconds}
    return {
        "capture": f"{SOURCE.name}, repeated",
        "bytes": path.stat().st_size,
        "seconds": seconds,
        "peak_mib": {"kdissect": peak, "tshark": theirs.peak_mib},
        "times_as_fast": round(seconds["tshark"] / seconds["kdissect"], 2),
        **beside,
    }


def verdict(found: dict[str, Any], recorded: dict[str, Any] | None) -> tuple[str, bool]:
    """Return what was found as text, and whether that is as good as it must be."""
    seconds = found["seconds"]
    said = (
        f"{found['capture']}, {found['bytes'] / 1e6:.0f} MB: kdissect {seconds['kdissect']:.1f} s, tshark "
        f"{seconds['tshark']:.1f} s, {found['times_as_fast']:.2f} times as fast"
    )
    ratio, usual = found.get("times_the_anchor"), (recorded or {}).get("times_the_anchor")
    if ratio is not None:
        said += f", {ratio:.0f} times the processor time of the anchor"
    if not recorded:
        return f"{said}; nothing is recorded to compare with", True
    least = recorded["times_as_fast"] * LEAST
    good = found["times_as_fast"] >= least and not (ratio and usual and ratio * LEAST > usual)
    return (
        f"{said}; {recorded['times_as_fast']:.2f} is recorded, less than {least:.2f} would be too slow",
        good,
    )


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--anchor", type=Path)
    chosen = parser.parse_args()
    recorded = json.loads(RECORD.read_text()).get("light") if RECORD.exists() else None
    with tempfile.TemporaryDirectory(prefix="kdissect-bench-") as own:
        for _ in range(TURNS):
            said, good = verdict(measured(chosen.folder or Path(own), chosen.anchor), recorded)
            print(said, flush=True)
            if good:
                return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
