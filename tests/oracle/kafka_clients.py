"""kdissect's codec beside the official Java classes of releases. `python -m tests.oracle.kafka_clients 4.3.1
3.9.1`.

Resolves kafka-clients of any release from 2.4.0 on by Maven, compiles KafkaMessages.java against it, and
compares every message in every version that both sides know: random messages from the schema, and the same
messages damaged. See `agreement` for what has to agree and which differences are meant, `coverage` for what
is listed.

Prints a table by API for each release, and every difference with its bytes. The exit code is 1 if there is a
difference, or a message, version or field of a release that kdissect lacks; it is 2 if Java, Maven or a
release is missing.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from kdissect.protocol.codec.messages import encode
from kdissect.protocol.schema.registry import APIS
from tests.fuzz.damage import damaged
from tests.helpers.random_messages import random_message
from tests.lab.java_compiler import CompilationError
from tests.lab.maven import LabUnavailable
from tests.oracle.agreement import Leniency, compare
from tests.oracle.coverage import Coverage, Pair, coverage, release_number
from tests.oracle.peer import Peer, running

OLDEST = (2, 4)
MESSAGES = 6  # of a pair in one round
DAMAGED = 4  # from each of them
SHOWN = 20  # differences that are printed in full
LONGEST = 600  # characters of one side of a difference


@dataclass(slots=True)
class Tally:
    """Counts of comparisons for one API, or in all."""

    pairs: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def row(self, name: str) -> str:
        """Return one line of the table."""
        columns = ("messages", "accepted", "refused", "lenient", "differences")
        return f"{name:<32}{self.pairs:>6}" + "".join(f"{self.counts[column]:>12,}" for column in columns)


@dataclass(slots=True)
class Result:
    """Result of a comparison: by API, by leniency, and the differences as text."""

    apis: dict[str, Tally] = field(default_factory=dict)
    leniencies: Counter[Leniency] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)

    @property
    def total(self) -> Tally:
        """All APIs together."""
        tallies = self.apis.values()
        return Tally(sum(it.pairs for it in tallies), sum((it.counts for it in tallies), Counter()))


def check(peer: Peer, pairs: list[Pair], seed: int, seconds: float = 0, messages: int = MESSAGES) -> Result:
    """Compare every pair once, and then again with other messages until `seconds` are over."""
    rng = Random(seed)
    result = Result()
    for pair in pairs:
        result.apis.setdefault(pair.group, Tally()).pairs += 1
    end = time.monotonic() + seconds
    check_round(peer, pairs, rng, result, messages)
    while time.monotonic() < end:
        check_round(peer, pairs, rng, result, messages)
    return result


def check_round(peer: Peer, pairs: list[Pair], rng: Random, result: Result, messages: int) -> None:
    """Compare `messages` random messages of every pair, and some damaged ones for each."""
    for pair in pairs:
        batch = list(batch_of(rng, pair, messages))
        readings = peer.read(pair.class_name, pair.version, batch)
        counts = result.apis[pair.group].counts
        for data, theirs in zip(batch, readings, strict=True):
            verdict = compare(pair.message, pair.version, data, theirs)
            counts["messages"] += 1
            counts["accepted" if verdict.accepted else "refused"] += 1
            if verdict.leniency:
                counts["lenient"] += 1
                result.leniencies[verdict.leniency] += 1
            if verdict.difference:
                counts["differences"] += 1
                what = f"{pair.message.name} version {pair.version}, bytes {data.hex()[:LONGEST]}"
                result.differences.append(f"{what}\n    {verdict.difference[: 2 * LONGEST]}")


def batch_of(rng: Random, pair: Pair, messages: int) -> Iterator[bytes]:
    """Yield random messages of a pair, every other one tame, each followed by damaged copies of it."""
    other = b""
    for index in range(messages):
        value = random_message(rng, pair.message, pair.version, tame=index % 2 == 1)
        data = encode(pair.message, pair.version, value)
        yield data
        for _ in range(DAMAGED):
            yield damaged(rng, data, other)
        other = data


def report(release: str, known: Coverage, result: Result) -> Iterator[str]:
    """Return the lines that the command prints."""
    header = ("pairs", "messages", "accepted", "refused", "lenient", "differences")
    yield f"{'':<32}{header[0]:>6}" + "".join(f"{word:>12}" for word in header[1:])
    for name, tally in result.apis.items():
        yield tally.row(name)
    total = result.total
    yield total.row("all")
    yield "\nmeant differences:"
    for leniency, count in result.leniencies.most_common():
        yield f"  {count:>8,}  {leniency.value}"
    lists = {
        f"only in kafka-clients {release}": known.only_release,
        f"other fields in kafka-clients {release}": known.other_fields,
        f"drafts in kafka-clients {release}, not compared": known.drafts,
        "only in kdissect": known.only_kdissect,
    }
    for title, lines in lists.items():
        yield f"\n{title}: {len(lines) or 'nothing'}"
        yield from (f"  {line}" for line in lines)
    if result.differences:
        yield f"\ndifferences: {len(result.differences)}"
        yield from result.differences[:SHOWN]
    agree = "differ in" if result.differences else "agree with"
    yield f"\n{total.pairs} pairs of a message and a version {agree} kafka-clients {release}\n"


def compare_release(release: str, seed: int, seconds: float) -> tuple[Coverage, Result]:
    """Compare with one release. Raise `LabUnavailable` if it, Java or Maven is missing."""
    with running(release) as peer:
        known = coverage(peer.catalogue(), release)
        return known, check(peer, known.pairs, seed, seconds)


def main(arguments: list[str] | None = None) -> int:
    """Run the comparison and print the report."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.oracle.kafka_clients",
        description="Compare the codec with the classes of kafka-clients by random and damaged messages.",
    )
    parser.add_argument("releases", nargs="+", metavar="RELEASE", help="such as 4.3.1; 2.4.0 or newer")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long for each release (default: 30)")
    parser.add_argument(
        "--seed", type=int, default=0, help="what the random messages begin with (default: 0)"
    )
    options = parser.parse_args(arguments)
    if too_old := [release for release in options.releases if release_number(release) < OLDEST]:
        parser.error(
            f"kafka-clients {too_old[0]} has no generated message classes; 2.4.0 is the oldest that has"
        )
    failed = False
    compared: set[tuple[str, int]] = set()
    for release in options.releases:
        try:
            known, result = compare_release(release, options.seed, options.seconds)
        except (LabUnavailable, CompilationError) as missing:
            print(missing, file=sys.stderr)
            return 2
        print("\n".join(report(release, known, result)), flush=True)
        failed |= bool(result.differences or known.only_release or known.other_fields)
        compared |= {(pair.message.name, pair.version) for pair in known.pairs}
    ours = {
        (message.name, version)
        for api in APIS.values()
        for message in (api.request, api.response)
        for version in message.versions
    }
    print(
        f"{len(compared & ours)} of kdissect's {len(ours)} pairs of an API's message and a version "
        "were compared"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
