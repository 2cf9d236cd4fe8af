"""Replays of clients in five languages into real brokers: `python -m tests.lab.replayed [--write]`.

The clients of `client_mix` are recorded for a minute on three brokers. Then the capture is replayed at each
pace and with each kind of groups, into clusters of several releases and sizes, by the commands that a user
types. After each replay kafka-python compares the contents of every partition, in both isolation levels,
and the committed offsets, with those of the recorded cluster. `--write` writes the rows of
docs/replay-clients.md.

`--recording FOLDER` keeps the recording, and uses it again if it is there.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from kdissect.replay.results.run_comparison import compare
from kdissect.replay.results.run_files import read_run
from tests.lab import client_mix, contents
from tests.lab.cluster import KraftCluster
from tests.lab.maven import Release
from tests.lab.releases import CURRENT, EARLIER

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "replay-clients.md"
BEGIN, END = "<!-- table of replays -->\n", "<!-- end of the table -->"
PACES = ("schedule", "think", "asap")
GROUPS = ("simple", "full")
LONGEST_S = 900.0  # of one command
Value = TypeVar("Value")
SENTENCES = 2  # about a run that did not pass
HEADINGS = (
    "target",
    "pace",
    "groups",
    "sent",
    "records acknowledged",
    "uncommitted contents",
    "committed contents",
    "fetched",
    "commits",
    "members",
    "verdict",
    "late p99",
    "took",
    "notes",
)


@dataclass(frozen=True, slots=True)
class Target:
    """A cluster to replay into."""

    release: Release
    brokers: int

    @property
    def name(self) -> str:
        return f"{self.release.version}, {self.brokers} broker" + ("s" if self.brokers > 1 else "")


TARGETS = tuple(Target(release, brokers) for release in (CURRENT, EARLIER) for brokers in (1, 3))


@dataclass(frozen=True, slots=True)
class Way:
    """A way to replay: when requests are sent, and what of groups."""

    pace: str
    groups: str

    @property
    def prefix(self) -> str:
        return f"{self.pace}-{self.groups}-"


def replay(log: Path, cluster: KraftCluster, way: Way, folder: Path) -> tuple[dict[str, Any], float]:
    """Replay into a cluster as a user does. Return the report on the run, and how long `run` took."""
    where = ["--target", f"127.0.0.1:{cluster.client_ports[0]}", "--prefix", way.prefix, "--quiet"]
    _kdissect("prepare", log, *where, "--groups", way.groups, "--execute")
    begin = time.monotonic()
    _kdissect(
        "run", log, *where, "--groups", way.groups, "--pace", way.pace, "--execute",
        "--out", folder, "--format", "json",
    )  # fmt: skip
    took = time.monotonic() - begin
    run, pairs = read_run(folder)
    found = list(pairs)
    return compare(run, found) | {"members": assigned_members(found)}, took


def _kdissect(*words: str | Path) -> None:
    """Run a command of the replay; a verdict is no failure. Raise RuntimeError with what it said."""
    command = [sys.executable, "-m", "kdissect", "replay", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    if done.returncode not in (0, 3, 4):
        raise RuntimeError(f"{' '.join(command)}: {done.returncode}\n{done.stderr[-3000:]}")


def assigned_members(pairs: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """Return how many clients were assigned partitions: in the capture, and on the target."""
    assigned: tuple[set[str], set[str]] = set(), set()
    for pair in pairs:
        if pair["api"] in ("SyncGroup", "ConsumerGroupHeartbeat"):
            digests = pair["captured"]["digest"], [each for a in pair["answers"] for each in a["digest"]]
            for clients, digest in zip(assigned, digests, strict=True):
                if any(entry.get("assigned") for entry in digest):
                    clients.add(pair["client_id"])
    captured, replayed = assigned
    return len(captured), len(replayed & captured)


def row(target: Target, way: Way, report: Mapping[str, Any], seen: Observed, took: float) -> str:
    """Return a row of the table."""
    sums, records, lag = report["accounting"], report["records"], report["lag"]
    short = [each for each in records["topics"] if each["replayed"] < each["captured"]]
    captured, replayed = records["fetched_captured"], records["fetched_replayed"]
    notes = [*report["because"][:SENTENCES], *seen.notes]
    if records["amplification"]:
        notes += [
            f"{each['records']:,} records {each['reason']}" for each in records["amplification"]["reasons"]
        ]
    cells = (
        target.name,
        way.pace,
        way.groups,
        f"{sums['sent']:,} of {sums['captured']:,}",
        "equal"
        if not short
        else ", ".join(f"{e['replayed']:,} of {e['captured']:,} of {e['topic']}" for e in short),
        *seen.contents,
        f"{replayed:,} of {captured:,} ({replayed / captured - 1:+.1%})",
        seen.commits,
        "{1} of {0}".format(*report["members"]) if way.groups == "full" else "-",
        report["verdict"],
        f"{lag['own_ms']['p99']:.1f} ms" if lag["own_ms"] else "-",
        f"{took:.0f} s",
        "; ".join(notes).replace("|", "\\|").replace(way.prefix, "") or "-",
    )
    return f"| {' | '.join(cells)} |"


@dataclass(frozen=True, slots=True)
class Observed:
    """Differences that kafka-python found between the target and the recorded cluster."""

    contents: tuple[str, ...]  # by isolation level: how many partitions are equal
    commits: str
    notes: tuple[str, ...]


def observe(recording: Path, cluster: KraftCluster, prefix: str) -> Observed:
    """Compare a target with the recorded cluster."""
    expected, commits = client_mix.read_truth(recording)
    found = {
        isolation: _without(
            prefix,
            contents.read_contents(
                cluster.bootstrap, [prefix + each for each in client_mix.TOPICS], isolation
            ),
        )
        for isolation in contents.ISOLATIONS
    }
    kept = contents.read_commits(cluster.bootstrap, [prefix + group for group in client_mix.GROUPS])
    replayed = {
        group.removeprefix(prefix): _without(prefix, partitions) for group, partitions in kept.items()
    }
    return compare_observed(expected, commits, found, replayed)


def compare_observed(
    expected: Mapping[str, contents.Contents],
    commits: contents.Commits,
    found: Mapping[str, contents.Contents],
    replayed: contents.Commits,
) -> Observed:
    """Return what is equal, and notes about the rest."""
    cells, notes = [], []
    for isolation in contents.ISOLATIONS:
        equal = contents.equal_partitions(expected[isolation], found[isolation])
        cells.append(f"{len(equal)} of {len(expected[isolation])}")
        notes += [
            f"{isolation} {where}: {len(found[isolation].get(where, ())):,} records "
            f"instead of {len(records):,}"
            for where, records in expected[isolation].items()
            if where not in equal
        ]
    uncommitted = contents.ISOLATIONS[0]
    differing = contents.differing_commits(commits, expected[uncommitted], replayed, found[uncommitted])
    total = sum(map(len, commits.values()))
    notes += [f"commit of {where}: {records:+,} records" for where, records in differing.items()]
    shown = [*notes[:3], f"{len(notes) - 3} more such"] if len(notes) > 3 else notes
    return Observed(tuple(cells), f"{total - len(differing)} of {total}", tuple(shown))


def _without(prefix: str, partitions: Mapping[str, Value]) -> dict[str, Value]:
    return {where.removeprefix(prefix): value for where, value in partitions.items()}


def rows(recording: Path, targets: Sequence[Target], ways: Sequence[Way], folder: Path) -> Iterator[str]:
    """Replay into all targets, and yield a row for each replay."""
    log = folder / "log"
    _kdissect("load", recording / client_mix.CAPTURE, "--out", log, "--quiet")
    for target in targets:
        with KraftCluster(
            target.release, target.brokers, client_mix.CONSUMER_PROTOCOL, request_log=False
        ) as cluster:
            for way in ways:
                place = folder / f"{target.release.version}-{target.brokers}-{way.pace}-{way.groups}"
                report, took = replay(log, cluster, way, place)
                line = row(target, way, report, observe(recording, cluster, way.prefix), took)
                sys.stderr.write(line + "\n")
                yield line


def write_rows(made: Sequence[str]) -> None:
    """Write rows into the page; those of other replays stay."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    known = {_subject(line): line for line in (*rest.partition(END)[0].splitlines(), *made)}
    order = [
        (target.name, pace, groups) for target, pace, groups in itertools.product(TARGETS, PACES, GROUPS)
    ]
    table = [
        f"| {' | '.join(HEADINGS)} |",
        f"|{' --- |' * len(HEADINGS)}",
        *(known[subject] for subject in order if subject in known),
    ]
    text = "\n".join(table)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n\n{END}{rest.partition(END)[2]}")


def _subject(line: str) -> tuple[str, ...]:
    """Return the first columns of a row: what was replayed."""
    return tuple(line.removeprefix("| ").split(" | ")[:3])


def main() -> None:
    """Record, replay what is chosen, and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="how long the clients write (default: 60)"
    )
    parser.add_argument("--recording", type=Path, metavar="FOLDER", help="keep the recording here, or use it")
    parser.add_argument("--runs", type=Path, metavar="FOLDER", help="keep the files of the runs here")
    parser.add_argument(
        "--target", nargs="*", choices=[each.name for each in TARGETS], help="only these targets"
    )
    parser.add_argument("--pace", nargs="*", choices=PACES, default=PACES, help="only these paces")
    parser.add_argument("--groups", nargs="*", choices=GROUPS, default=GROUPS, help="only these groups")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        recording = wanted.recording or Path(temporary) / "recording"
        runs = wanted.runs or Path(temporary) / "runs"
        for folder in (recording, runs):
            folder.mkdir(parents=True, exist_ok=True)
        if not (recording / client_mix.TRUTH).exists():
            client_mix.record(recording, wanted.seconds)
        targets = [each for each in TARGETS if wanted.target is None or each.name in wanted.target]
        ways = [Way(*each) for each in itertools.product(wanted.pace, wanted.groups)]
        for line in rows(recording, targets, ways, runs):
            if wanted.write:
                write_rows([line])  # at once: a later replay may fail
            else:
                sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()
