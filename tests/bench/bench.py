"""The benchmark in one command: makes its captures, measures, writes `bench.json`, `bench.md` and two plots.

    python -m tests.bench.bench --folder DIR [--anchor PROGRAM]

DIR keeps the captures, some 36 GB of them. Those that lie there are taken (`capture_set`). `--prepare`
makes all of them and measures nothing. The largest are removed once they are measured, if a run made them.
Commands run in turn as whole processes. Compare the ratios of one run, since seconds change with the machine.
`bench.json` is written after every part, and a run goes on behind what one of the same kdissect on the same
machine has measured, unless `--anew` is given. A part that fails does not end the others: the page says so,
and the exit code is 1. `--light` leaves out all but chatty and keeps tshark to one run. `--quick` tries it
all on small captures, in DIR/quick. `--page` writes the page of a `bench.json` that is there.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from kdissect.files import write_atomically
from tests.bench import light, other_commands, page
from tests.bench.archives import await_archives
from tests.bench.capture_set import CAPTURES, GIGABYTE, CaptureSet
from tests.bench.commands import REPOSITORY, anchor, compile_modules, kdissect, tshark
from tests.bench.measure import CommandFailed, Run, run

DPKT_LOOP = """
import dpkt, sys
total = 0
for _, data in dpkt.pcap.Reader(open(sys.argv[1], "rb")):
    total += len(dpkt.ethernet.Ethernet(data).data.data.data)
"""
COMPILE_SECONDS = 600
SAID_AT_MOST = 500  # characters of what a program said before it failed
TIMELINES = 5

AGAINST_TSHARK = ("chatty", "chatty-5m", "mixed", "bulk")
BY_SIZE = ("1-gb", "4-gb", "16-gb")
STAGES = ("chatty", "bulk")
CORES = "chatty-5m"
DPKT = "chatty"
OTHER_COMMANDS = "chatty"
FIRST_RUN = "many"


def medians(
    name: str,
    commands: dict[str, tuple[list[str], int]],
    path: Path,
    families: Collection[str],
    before_each: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Run commands in turn, each as often as it says; give their medians, peaks and runs.

    Those in `families` have several processes, whose memory is that of another run, which is not timed.
    """
    done: dict[str, list[Run]] = {command: [] for command in commands}
    for turn in range(max(runs for _, runs in commands.values())):
        for command, (words, runs) in commands.items():
            if turn < runs:
                before_each()
                one = run(words)
                done[command].append(one)
                print(f"{name:12}{command:20}{one.seconds:9.2f} s", flush=True)
    peaks = {command: max(one.peak_mib for one in runs) for command, runs in done.items()}
    for command in families:
        before_each()
        peaks[command] = run(commands[command][0], all_memory=True).peak_mib
        print(f"{name:12}{command:20}{peaks[command]:9.0f} MiB", flush=True)
    return {
        "capture": name,
        "told": CAPTURES[name].told,
        "bytes": path.stat().st_size,
        "seconds": {
            command: statistics.median(one.seconds for one in runs) for command, runs in done.items()
        },
        "processor_seconds": {
            command: statistics.median(one.processor_seconds for one in runs)
            for command, runs in done.items()
        },
        "peak_mib": peaks,
        "runs": {command: [asdict(one) for one in runs] for command, runs in done.items()},
    }


def against_tshark(captures: CaptureSet, name: str, runs: int, native: Path | None) -> dict[str, Any]:
    """Compare on one capture; `cat` is the floor: what reading the file costs, and `native` an anchor."""
    path = captures.path(name)
    run(["cat", str(path)])  # fills the page cache for all of them
    ports = captures.server_ports(name)
    commands = {
        "kdissect": (kdissect(path, "--quiet"), runs),
        "tshark": (tshark(path, ports), 1 if path.stat().st_size > GIGABYTE else runs),
        "cat": (["cat", str(path)], runs),
    }
    if native:
        commands["anchor"] = (anchor(native, path, ports), runs)
    if name == DPKT:
        commands["dpkt loop"] = ([sys.executable, "-c", DPKT_LOOP, str(path)], 1)
    row = medians(name, commands, path, ["kdissect"])
    row["times_as_fast"] = round(row["seconds"]["tshark"] / row["seconds"]["kdissect"], 2)
    return row


def by_command(captures: CaptureSet, runs: int) -> dict[str, Any]:
    """Measure the commands beside `analyze` on one capture."""
    path, folder = captures.path(OTHER_COMMANDS), captures.folder
    lines = other_commands.command_lines(path, folder)
    for kind in (other_commands.PLAIN, "sql"):  # the first run of each kind leaves work behind
        run(lines[kind])
        await_archives()
    found = medians(
        path.stem,
        {name: (words, runs) for name, words in lines.items()},
        path,
        list(lines),
        partial(other_commands.emptied, folder),
    )
    other_commands.emptied(folder)
    return found


def passing(captures: CaptureSet, name: str, runs: int = 1) -> dict[str, Any]:
    """Measure one capture, with kdissect only, and remove it if it was made for that: it is large."""
    made = not (captures.folder / f"{name}.pcap").exists()
    path = captures.path(name)
    run(["cat", str(path)])  # fills the page cache, as for the other captures
    found = medians(name, {"kdissect": (kdissect(path, "--quiet"), runs)}, path, ["kdissect"])
    if made:
        path.unlink()
    return found


def first_run(captures: CaptureSet) -> dict[str, Any]:
    """Measure a first run on a large capture, once: it waits for the compiler."""
    path, cache = captures.path(FIRST_RUN), captures.folder / "empty-cache"
    shutil.rmtree(cache, ignore_errors=True)
    one = run(kdissect(path, "--quiet"), all_memory=True, XDG_CACHE_HOME=str(cache))
    shutil.rmtree(cache, ignore_errors=True)
    return asdict(one) | {
        "capture": FIRST_RUN,
        "told": CAPTURES[FIRST_RUN].told,
        "bytes": path.stat().st_size,
    }


def timeline() -> dict[str, Any]:
    """Return where the time of a small capture goes, of the quickest of some runs."""
    small = str(REPOSITORY / "captures" / "steady.pcapng")
    command = [sys.executable, "-P", "-m", "tests.bench.timeline", small, "--json"]
    runs = [json.loads(subprocess.check_output(command, cwd=REPOSITORY)) for _ in range(TIMELINES)]
    steps = min(runs, key=lambda run: float(run[-1]["end"]))
    return {"capture": Path(small).name, "steps": steps}


def by_cores(captures: CaptureSet, runs: int) -> dict[str, Any]:
    """Measure with one core and with two, and what both spend on a small capture: the start."""
    path, small = captures.path(CORES), REPOSITORY / "captures" / "steady.pcapng"
    found: dict[str, Any] = {"capture": CORES, "seconds": {}, "start_seconds": {}}
    for cores in (1, os.cpu_count() or 1):
        master = ("--quiet", "--master", f"local[{cores}]")
        for where, what in (("seconds", path), ("start_seconds", small)):
            pinned = ["taskset", "-c", f"0-{cores - 1}", *kdissect(what, *master)]
            found[where][str(cores)] = statistics.median(run(pinned).seconds for _ in range(runs))
        print(f"{CORES:12}{cores} cores {found['seconds'][str(cores)]:9.2f} s", flush=True)
    found["machine"] = statistics.median(of_machine(captures.path(DPKT)) for _ in range(runs))
    print(f"{CORES:12}the machine {found['machine']:.2f}", flush=True)
    return found


def of_machine(path: Path) -> float:
    """Return how much all cores do against one, where nothing is shared: a copy of the stages on each,
    against one copy alone."""
    stages = [sys.executable, "-m", "tests.bench.stages", str(path), "--runs", "1"]

    def wall(cores: int) -> float:
        began = time.monotonic()
        copies = [
            subprocess.Popen(
                ["taskset", "-c", str(core), *stages], stdout=subprocess.DEVNULL, env=environment()
            )
            for core in range(cores)
        ]
        if any(copy.wait() for copy in copies):
            raise RuntimeError("the stages failed")
        return time.monotonic() - began

    cores = os.cpu_count() or 1
    return cores * wall(1) / wall(cores)


def of_stages(captures: CaptureSet, name: str) -> dict[str, Any]:
    """Measure the stages in a process of their own."""
    command = [sys.executable, "-m", "tests.bench.stages", str(captures.path(name))]
    said = subprocess.run(command, check=True, capture_output=True, text=True, env=environment()).stdout
    print(name, said.strip(), flush=True)
    found: dict[str, Any] = json.loads(said)
    return found | {"capture": name}


def starting(folder: Path, runs: int) -> dict[str, Any]:
    """Measure a small capture: warm, and with an empty cache, which the first run fills."""
    small = kdissect(REPOSITORY / "captures" / "steady.pcapng")
    cache = folder / "empty-cache"
    shutil.rmtree(cache, ignore_errors=True)
    first = run(small, XDG_CACHE_HOME=str(cache))
    behind = time.monotonic()  # what is made behind the first run would disturb the next ones
    made = ("kdissect/kernels-*/all", "kdissect/classes-*.seal")
    while not all(list(cache.glob(name)) for name in made) and time.monotonic() < behind + COMPILE_SECONDS:
        time.sleep(1)
    run(small, XDG_CACHE_HOME=str(cache))
    warm = [run(small, XDG_CACHE_HOME=str(cache)) for _ in range(runs)]
    shutil.rmtree(cache, ignore_errors=True)
    found = {
        "warm_seconds": statistics.median(one.seconds for one in warm),
        "first_line_seconds": statistics.median(one.first_line_seconds or 0 for one in warm),
        "first_run_seconds": first.seconds,
        "processor_seconds": statistics.median(one.processor_seconds for one in warm),
    }
    print("start", found, flush=True)
    return found


def environment() -> dict[str, str]:
    """Return the environment in which children find this copy of kdissect."""
    return os.environ | {"PYTHONPATH": str(REPOSITORY)}


def facts() -> dict[str, Any]:
    """Return what was measured, and on what."""
    said = subprocess.run(["tshark", "--version"], capture_output=True, text=True, check=True).stdout
    commit = subprocess.run(
        ["git", "log", "-1", "--format=%h", "--", "kdissect"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    processor = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    return {
        "tshark": said.splitlines()[0],
        "python": platform.python_version(),
        "cpus": os.cpu_count() or 1,
        "processor": f"{processor}, {os.cpu_count()} cores",
        "commit": commit.stdout.strip(),
        "load_before": os.getloadavg()[0],
    }


@dataclass(frozen=True)
class Part:
    """One thing to measure: where it goes in `bench.json`, and how it is measured."""

    section: str
    measure: Callable[[], dict[str, Any]]
    name: str = ""
    """The capture, where a section has a row for each of several."""

    def __str__(self) -> str:
        return f"{self.section} {self.name}".strip()

    def put(self, found: dict[str, Any], measured: dict[str, Any]) -> None:
        """Put what was measured in its place."""
        if not self.name:
            found[self.section] = measured
            return
        rows = [row for row in found[self.section] if row["capture"] != self.name]
        order = list(CAPTURES)
        found[self.section] = sorted([*rows, measured], key=lambda row: order.index(row["capture"]))


SECTIONS_OF_ROWS = ("captures", "stages", "sizes", "shapes")
FAILURES = (
    CommandFailed,
    subprocess.CalledProcessError,
    OSError,
    LookupError,
    ValueError,
    RuntimeError,
    SystemExit,
)
"""How a part can fail without an end to the others."""


def parts(captures: CaptureSet, wanted: list[str], runs: int, native: Path | None = None) -> list[Part]:
    """Return the parts of a benchmark on the captures that are wanted, in the order in which they are
    measured."""

    def of(section: str, names: tuple[str, ...], measure: Callable[[str], dict[str, Any]]) -> list[Part]:
        return [Part(section, partial(measure, name), name) for name in names if name in wanted]

    def once(section: str, needed: str, measure: Callable[[], dict[str, Any]]) -> list[Part]:
        return [Part(section, measure)] if needed in wanted else []

    return [
        Part("start", lambda: starting(captures.folder, max(runs, 5))),
        Part("timeline", timeline),
        Part("light", lambda: light.measured(captures.folder, native)),
        *of("captures", AGAINST_TSHARK, lambda name: against_tshark(captures, name, runs, native)),
        *once("commands", OTHER_COMMANDS, lambda: by_command(captures, runs)),
        *of("stages", STAGES, lambda name: of_stages(captures, name)),
        *once("cores", CORES, lambda: by_cores(captures, min(runs, 2))),
        *of("sizes", BY_SIZE, lambda name: passing(captures, name)),
        *once("first_run", FIRST_RUN, lambda: first_run(captures)),
        *of("shapes", ("single", "many"), lambda name: passing(captures, name, runs)),
    ]


def begun(path: Path, anew: bool) -> dict[str, Any]:
    """Return what an earlier run of the same kdissect on the same machine has measured; nothing if it was
    another."""
    found: dict[str, Any] = {**facts(), "took": {}} | {section: [] for section in SECTIONS_OF_ROWS}
    if path.exists() and not anew:
        before = json.loads(path.read_text())
        if all(before.get(name) == found[name] for name in ("commit", "processor", "python", "tshark")):
            return found | before
    return found


def measured(path: Path, todo: list[Part], anew: bool, **about: Any) -> bool:
    """Measure the parts that are not in the file yet, and write it after each: a run that is stopped can be
    gone on with. Return whether all of them could be measured."""
    found = begun(path, anew) | about
    found["failed"] = {}
    for part in todo:
        if str(part) in found["took"]:
            print(f"{part}: measured before, kept", flush=True)
            continue
        began = time.monotonic()
        try:
            part.put(found, part.measure())
            found["took"][str(part)] = round(time.monotonic() - began, 1)
            print(f"{part}: took {found['took'][str(part)]:.0f} s", flush=True)
        except FAILURES as failure:
            found["failed"][str(part)] = reason(failure)
            print(f"{part}: {reason(failure)}", file=sys.stderr, flush=True)
        found["load_after"] = os.getloadavg()[0]
        write_atomically(path, json.dumps(found, indent=2) + "\n")
    return not found["failed"]


def reason(failure: BaseException) -> str:
    """Return why a part failed, as one sentence on one line."""
    said = getattr(failure, "stderr", None) or ""
    said = said.decode(errors="replace") if isinstance(said, bytes) else said
    words = f"{type(failure).__name__}: {failure} {said[-SAID_AT_MOST:]}".split()
    return f"{' '.join(words)}."


def arguments() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=Path("bench-captures"))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--light", action="store_true")
    parser.add_argument("--anchor", type=Path, help="a native program to compare with")
    parser.add_argument("--only", nargs="+", choices=sorted(CAPTURES), default=sorted(CAPTURES))
    parser.add_argument("--anew", action="store_true")
    parser.add_argument("--prepare", action="store_true", help="make the captures, and measure nothing")
    parser.add_argument("--quick", action="store_true", help="try it all on small captures, in DIR/quick")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--out", type=Path, help="default: reports, with --quick DIR/quick")
    return parser


def main() -> int:
    """Run the command line. Return 1 if a part could not be measured."""
    parser = arguments()
    chosen = parser.parse_args()
    folder = chosen.folder / "quick" if chosen.quick else chosen.folder
    out = chosen.out or (folder if chosen.quick else REPOSITORY / "reports")
    captures = CaptureSet(folder, chosen.quick)
    wanted = ["chatty"] if chosen.light else chosen.only
    whole = True
    if not chosen.page:
        if chosen.anchor and not os.access(chosen.anchor, os.X_OK):
            parser.error(f"{chosen.anchor} is no program")
        if not shutil.which("tshark"):
            parser.error("tshark is not installed")
        os.environ["PYTHONPATH"] = str(REPOSITORY)
        compile_modules()
        folder.mkdir(parents=True, exist_ok=True)
        out.mkdir(parents=True, exist_ok=True)
        if chosen.prepare:
            for name in wanted:
                captures.path(name)
            return 0
        runs = 1 if chosen.light or chosen.quick else chosen.runs
        native = chosen.anchor.resolve() if chosen.anchor else None
        words = "--folder DIR" + (" --anchor PROGRAM" if native else "")
        todo = parts(captures, wanted, runs, native)
        whole = measured(out / "bench.json", todo, chosen.anew, runs=runs, words=words)
    page.write(out)
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())
