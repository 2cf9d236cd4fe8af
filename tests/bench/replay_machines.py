"""Replay by two workers of a standalone Spark cluster on this machine: undisturbed, and with harm half-way.

    python -m tests.bench.replay_machines LOG [--speed 1]

In: a replay log, which is sent at its schedule to a real broker. Out: a row of a table for one process, for
two workers, for a worker that is killed half-way, one that is stopped, and Ctrl-C. In the last row a worker
has a network of its own, whose cable is pulled half-way; there the broker of the benchmarks is the target,
and root is needed. Requests that are neither sent nor skipped would be a defect, which ends this with an
error.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kdissect.replay.load.log_files import open_log
from tests.helpers.apart_host import ApartHost
from tests.helpers.command import COMMAND, environment
from tests.helpers.null_target import null_target
from tests.helpers.spark_cluster import Standalone
from tests.lab.cluster import KraftCluster
from tests.lab.releases import CURRENT

HEAD = (
    "| run | verdict | captured | sent | skipped | nothing known | start spread | harm to report |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- |"
)
UNKNOWN = "nothing is known of it"
WAIT_S = 180.0  # for the workers to begin
ESTABLISHED = "01"  # in /proc/net/tcp

Harm = Callable[[subprocess.Popen[bytes], Standalone], None]


def kill(_command: subprocess.Popen[bytes], cluster: Standalone) -> None:
    """End a worker without a word."""
    cluster.kill_worker()


def silence(_command: subprocess.Popen[bytes], cluster: Standalone) -> None:
    """Have a worker say nothing more."""
    cluster.signal_worker(signal.SIGSTOP)


def interrupt(command: subprocess.Popen[bytes], _cluster: Standalone) -> None:
    """Press Ctrl-C."""
    command.send_signal(signal.SIGINT)


RUNS: tuple[tuple[str, bool, Harm | None], ...] = (
    ("one process", False, None),
    ("two workers", True, None),
    ("a worker killed half-way", True, kill),
    ("a worker silent from half-way on", True, silence),
    ("Ctrl-C half-way", True, interrupt),
)
"""Name of a run, whether workers send, and what happens to them."""


def rows(log: Path, speed: float) -> Iterator[str]:
    """Yield the table."""
    facts = open_log(log)
    half_s = (facts.latest_ns - facts.earliest_ns) / 1e9 / speed / 2
    yield HEAD
    for name, on_workers, harm in RUNS:
        with tempfile.TemporaryDirectory() as folder, KraftCluster(CURRENT, 1, request_log=False) as brokers:
            target = brokers.bootstrap
            prepare = [*COMMAND, "replay", "prepare", str(log), "--target", target, "--execute"]
            subprocess.run(prepare, check=True, stdout=subprocess.DEVNULL, env=environment())
            command = [*COMMAND, "replay", "run", str(log), "--target", target, "--speed", str(speed)]
            command += ["--execute", "--format", "json", "--out", str(Path(folder) / "run")]
            if not on_workers:
                yield _row(name, *_replayed([*command, "--processes", "1"], {}, lambda _run: None, target, 0))
                continue
            place = Path(folder) / "cluster"
            place.mkdir()
            with Standalone(place) as cluster:
                yield _row(name, *_on_cluster(command, Path(folder), cluster, harm, target, half_s))

    if os.geteuid() == 0 and shutil.which("ip"):
        yield _row("a worker's network cut half-way", *_with_cable_pulled(log, speed, half_s))


def _with_cable_pulled(log: Path, speed: float, half_s: float) -> tuple[dict[str, Any], float]:
    """Replay by two workers, of which one loses its network. Return what `_replayed` returns."""
    with tempfile.TemporaryDirectory() as folder, ApartHost() as apart, null_target(apart.here) as target:
        place = Path(folder) / "cluster"
        place.mkdir()
        command = [*COMMAND, "replay", "run", str(log), "--target", target, "--speed", str(speed)]
        command += ["--execute", "--format", "json", "--out", str(Path(folder) / "run")]
        with Standalone(place, apart=apart) as cluster:
            return _on_cluster(
                command, Path(folder), cluster, lambda _run, _cluster: apart.cut(), target, half_s
            )


def _on_cluster(
    command: list[str], folder: Path, cluster: Standalone, harm: Harm | None, target: str, half_s: float
) -> tuple[dict[str, Any], float]:
    """Replay by the workers of a cluster. Return the report, and the seconds from the harm to it."""
    own = {key: value for key, value in cluster.confs.items() if not key.startswith("spark.executorEnv")}
    confs = "\n".join(f"{key} {value}" for key, value in own.items())
    (folder / "spark-defaults.conf").write_text(confs)
    variables = {"SPARK_CONF_DIR": str(folder), "PYSPARK_PYTHON": str(cluster.python)}

    def strike(run: subprocess.Popen[bytes]) -> None:
        if harm is not None:
            harm(run, cluster)

    return _replayed([*command, "--master", cluster.master], variables, strike, target, half_s)


def _replayed(
    command: list[str],
    variables: dict[str, str],
    strike: Callable[[subprocess.Popen[bytes]], None],
    target: str,
    half_s: float,
) -> tuple[dict[str, Any], float]:
    """Run a command, and harm it half-way. Return its report, and the seconds from the harm to it."""
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as told:
        with subprocess.Popen(command, stdout=said, stderr=told, env=environment(**variables)) as run:
            _wait_until_sending(run, int(target.rpartition(":")[2]))
            time.sleep(half_s)
            struck_s = time.monotonic()
            strike(run)
            run.wait()
        took_s = time.monotonic() - struck_s
        said.seek(0)
        told.seek(0)
        text = said.read()
        if not text:
            raise SystemExit(f"{' '.join(command)}: {told.read().decode()}")
    return json.loads(text), took_s


def _wait_until_sending(run: subprocess.Popen[bytes], port: int) -> None:
    """Wait until several connections to the target are open: until then at most one asks it at a time."""
    deadline_s = time.monotonic() + WAIT_S
    while run.poll() is None and time.monotonic() < deadline_s:
        connections = [line.split()[1:4] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        if sum(to.endswith(f":{port:04X}") and state == ESTABLISHED for _, to, state in connections) > 2:
            return
        time.sleep(0.05)


def _row(name: str, report: dict[str, Any], took_s: float) -> str:
    """Return a row of the table. Raise SystemExit if a request is not accounted for."""
    sums, workers = report["accounting"], report["run"].get("workers") or []
    if sums["captured"] != sums["sent"] + sums["skipped"]:
        raise SystemExit(f"{name}: not every request is accounted for: {sums}")
    unknown = sum(each["requests"] for each in report["skipped"] if each["reason"].startswith(UNKNOWN))
    starts = [worker["start_ms"] for worker in workers if worker["start_ms"] is not None]
    spread = f"{max(starts) - min(starts):.2f} ms" if len(starts) > 1 else "-"
    after = f"{took_s:.1f} s" if report["run"].get("stopped") else "-"
    lost = "; ".join(worker["lost"] for worker in workers if worker["lost"])
    print(f"{name}: {report['because']} {lost}", file=sys.stderr)
    return (
        f"| {name} | {report['verdict']} | {sums['captured']:,} | {sums['sent']:,} | {sums['skipped']:,} "
        f"| {unknown:,} | {spread} | {after} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("log", type=Path)
    parser.add_argument("--speed", type=float, default=1.0)
    chosen = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background ignores
    os.environ.pop("KDISSECT_JIT", None)
    for line in rows(chosen.log, chosen.speed):
        print(line, flush=True)


if __name__ == "__main__":
    main()
