"""Slicing beside other programs: `slice`, `analyze`, `editcap` and `tshark -w` on one large capture, in turn.

    python -m tests.bench.slice [--folder DIR] [--bytes 1g] [--write]

The capture is `captures/steady.pcapng`, repeated with new ports and times (`synthesis`). The slice is
about one percent of its time. `editcap -A -B` copies the packets of that time, whoever they belong to, and
`tshark -Y … -w` those with a display filter of time; `slice --around 0s` copies the packets of the
connections with an exchange in it. Elapsed and processor seconds are minima of TURNS
turns, and the peak memory of all processes is that of a run before them. `--write` writes the table into
reports/bench-slice.md. The capture takes its size on disk, once.
"""

import argparse
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import CaptureFile
from kdissect.text import parse_size
from tests.bench import light
from tests.bench.commands import REPOSITORY, kdissect
from tests.bench.measure import Run, run

PAGE = REPOSITORY / "reports" / "bench-slice.md"
SHARE = 0.01
TURNS = 2
HEAD = """# Slicing

Made by `python -m tests.bench.slice --bytes {bytes} --write`: one percent of the time of a capture of
{size} ({packets:,} packets), minima of {turns} turns. Memory is that of a run before them. "Times" is elapsed
time beside `analyze`. `editcap` and `tshark` know no exchanges: they copy the packets of that time.

| command | elapsed | times | processor | memory |
| --- | --- | --- | --- | --- |
"""


def commands(path: Path, out: Path) -> tuple[dict[str, list[str]], int]:
    """Return the commands by name, and the number of packets of the capture."""
    found = index_captures([CaptureFile(str(path), path.name)])
    first, last = found.earliest_time_ns or 0, found.latest_time_ns or 0
    begin = first + (last - first) // 2
    end = begin + round((last - first) * SHARE)
    since, until = (datetime.fromtimestamp(one // 10**9, UTC) for one in (begin, end + 10**9))
    window = ["--since", since.isoformat(), "--until", until.isoformat()]
    texts = [one.strftime("%Y-%m-%d %H:%M:%S") for one in (since, until)]
    time_filter = f"frame.time_epoch >= {since.timestamp()} and frame.time_epoch < {until.timestamp()}"
    slice = [*kdissect(path)[:4], "slice", str(path), *window, "--around", "0s", "--quiet", "-o", str(out)]
    return {
        "kdissect analyze": kdissect(path, "--quiet"),
        "kdissect slice": slice,
        "kdissect slice --anonymize": [*slice, "--anonymize"],
        "editcap -A -B": ["editcap", "-A", texts[0], "-B", texts[1], str(path), str(out)],
        "tshark -Y -w": ["tshark", "-r", str(path), "-Y", time_filter, "-w", str(out)],
    }, found.packets


def main() -> None:
    """Measure, print the table, and write it if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--bytes", type=parse_size, default=1 << 30)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        light.BYTES = arguments.bytes
        path, _ = light.made(Path(name))
        size = f"{path.stat().st_size / 1e9:.2f} GB"
        known, packets = commands(path, Path(name) / "out.pcapng")
        best: dict[str, Run] = {}
        peaks = {command: run(words, all_memory=True).peak_mib for command, words in known.items()}
        for _ in range(TURNS):
            for command, words in known.items():
                new = run(words)
                best[command] = min(best.get(command, new), new, key=lambda one: one.seconds)
    base = best["kdissect analyze"].seconds
    rows = [
        f"| `{command}` | {one.seconds:.1f} s | {one.seconds / base:.2f} | {one.processor_seconds:.1f} s "
        f"| {peaks[command]} MiB |\n"
        for command, one in best.items()
    ]
    page = HEAD.format(bytes=arguments.bytes, size=size, packets=packets, turns=TURNS) + "".join(rows)
    print(page)
    if arguments.write:
        PAGE.write_text(page)


if __name__ == "__main__":
    main()
