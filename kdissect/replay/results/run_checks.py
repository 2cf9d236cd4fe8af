"""Checks for failures without an error code: batches that were not written, idle members, empty reads.

In: pairs one by one, as `pairs.jsonl` has them. Out: what each check found, and the records that were
acknowledged.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from kdissect.replay.disposition import Disposition
from kdissect.replay.results.run_reads import RunReads

NOT_DUE = {  # by choice, because they are there already, or because the capture does not tell what they are
    disposition.value
    for disposition in (
        Disposition.POLICY,
        Disposition.INTER_BROKER,
        Disposition.RETRY,
        Disposition.HEADLESS,
        Disposition.UNDECODABLE,
    )
}
MOST_NAMED = 3  # topics in the sentence of a check

Pair = Mapping[str, Any]
Finding = dict[str, Any]


class _Both:
    """How much of something the captured responses have, and how much the replayed ones."""

    __slots__ = ("captured", "replayed")

    def __init__(self) -> None:
        self.captured = self.replayed = 0

    def add(self, pair: Pair, field: str) -> None:
        """Add what the digests of a pair have in a field; a pair that was not sent counts for nothing."""
        if pair["sent"] is not None:
            self.captured += sum(entry.get(field, 0) for entry in pair["captured"]["digest"])
            self.replayed += sum(
                entry.get(field, 0) for answer in pair["answers"] for entry in answer["digest"]
            )

    @property
    def lost(self) -> bool:
        """Return whether the capture has some, and the run none."""
        return bool(self.captured and not self.replayed)


class RunChecks:
    """Memory of the checks over all pairs. A partition is `topic-number`, by the name on its cluster."""

    def __init__(self) -> None:
        self._written: dict[str, list[tuple[int, int]]] = defaultdict(
            list
        )  # (offset, records) as acknowledged
        self._deleted: set[str] = set()  # topics of the target whose offsets may have begun anew
        self._captured_records: dict[str, int] = defaultdict(int)  # acknowledged, by captured partition
        self._due_records: dict[str, int] = defaultdict(
            int
        )  # of these, those that the target should acknowledge
        self._replayed_records: dict[str, int] = defaultdict(int)  # acknowledged, by partition of the target
        self._reads, self._assigned = RunReads(), _Both()  # the latter of partitions
        self._acquired, self._epochs = (
            _Both(),
            _Both(),
        )  # records of share groups, leader epochs whose end is known
        self._unfollowed = 0  # empty fetches that named another replica
        self._unacknowledged = 0  # records that were sent with acks=0

    def add(self, pair: Pair) -> None:
        """Add one pair."""
        match pair["api"]:
            case "Produce":
                self._add_produce(pair)
            case "Fetch":
                self._reads.add(pair)
                self._unfollowed += sum(map(_names_other_replica, _replayed(pair)))
            case "SyncGroup" | "ConsumerGroupHeartbeat" | "ShareGroupHeartbeat":
                self._assigned.add(pair, "assigned")
            case "DeleteTopics":
                self._deleted.update(entry["where"] for entry in _replayed(pair) if not entry["error"])
            case "ShareFetch":
                self._acquired.add(pair, "acquired")
            case "OffsetForLeaderEpoch":
                self._epochs.add(pair, "known")

    def _add_produce(self, pair: Pair) -> None:
        records = pair["captured"].get("produced", {})
        acknowledged = {entry["where"] for entry in pair["captured"]["digest"] if not entry["error"]}
        due = pair["bucket"] not in NOT_DUE
        for partition in records.keys() & acknowledged:
            self._captured_records[partition] += records[partition]
            self._due_records[partition] += due * records[partition]
        batches = [(partition, count) for partition, count in pair["produced"]]  # in the order of the sending
        for entry in [
            entry for answer in pair["answers"] for entry in answer["digest"] if not entry["error"]
        ]:
            partition = entry["where"]
            number = next((number for number, batch in enumerate(batches) if batch[0] == partition), None)
            count = 0 if number is None else batches.pop(number)[1]
            self._replayed_records[partition] += count
            if entry["offset"] >= 0:
                self._written[partition].append((entry["offset"], count))
        if pair["bucket"] == Disposition.NO_ANSWER_DUE.value:
            self._unacknowledged += sum(records.values())

    def records(self, names: Mapping[str, str]) -> dict[str, Any]:
        """Return acknowledged records by topic; `names` are those of the topics on the target."""
        captured, replayed = by_topic(self._captured_records), by_topic(self._replayed_records)
        return {
            "topics": [
                {
                    "topic": topic,
                    "target": names.get(topic, topic),
                    "captured": captured[topic],
                    "replayed": replayed.get(names.get(topic, topic), 0),
                }
                for topic in sorted(captured)
            ],
            "sent_without_acknowledgement": self._unacknowledged,
            "fetched_captured": self._reads.captured,
            "fetched_replayed": self._reads.replayed,
            "amplification": self._reads.amplification(),
        }

    def findings(self, run: Mapping[str, Any]) -> list[Finding]:
        """Return the name of each check, whether it holds, and a sentence if it does not."""
        return [
            self._offsets_advance(),
            self._records_are_acknowledged(run["plan"]["names"]["topics"]),
            *self._nothing_is_lost(),
            *self._reads.findings(run),
            _finding(
                "no other replica is preferred",
                not self._unfollowed,
                f"{self._unfollowed} empty answers named another replica that was not followed",
            ),
            _no_transaction_is_open(run.get("open_transactions", [])),
            *self._seldom(),
        ]

    def _nothing_is_lost(self) -> Iterator[Finding]:
        assigned, reads = self._assigned, self._reads
        yield _finding(
            "members have partitions",
            not assigned.lost,
            f"the capture assigned {assigned.captured} partitions, the target none",
        )
        yield _finding(
            "fetches bring records",
            bool(not reads.captured or reads.replayed),
            f"captured fetches brought {reads.captured} records, replayed ones none",
        )

    def _seldom(self) -> Iterator[Finding]:
        """Yield the checks of what few captures have, only where the capture has it."""
        if self._acquired.captured:
            yield _finding(
                "share members acquire records",
                not self._acquired.lost,
                f"the capture's members acquired {self._acquired.captured} records, those on the target none",
            )
        if self._epochs.captured:
            yield _finding(
                "leader epochs have an end",
                not self._epochs.lost,
                f"the capture told the end of {self._epochs.captured} leader epochs, the target of none",
            )

    def _records_are_acknowledged(self, names: Mapping[str, str]) -> Finding:
        """Compare each partition alone: more records in one do not make up for missing ones in another."""
        missing: dict[str, int] = defaultdict(int)  # by captured topic
        for partition, due in self._due_records.items():
            topic, _, number = partition.rpartition("-")
            lacking = due - self._replayed_records.get(f"{names.get(topic, topic)}-{number}", 0)
            if lacking > 0:
                missing[topic] += lacking
        all_due = by_topic(self._due_records)
        worst = sorted(missing, key=lambda topic: -missing[topic])[:MOST_NAMED]
        named = [f"{missing[topic]:,} of {all_due[topic]:,} of {topic}" for topic in worst]
        total = sum(missing.values())
        return _finding(
            "what was acknowledged is acknowledged",
            not missing,
            f"{total:,} records that the captured cluster acknowledged were not acknowledged: "
            + ", ".join([*named, "…"] if len(missing) > MOST_NAMED else named),
        ) | {"lacking": total}

    def _offsets_advance(self) -> Finding:
        """Find batches that start before the end of the one acknowledged in front of them."""
        overlapping = 0
        for partition, batches in self._written.items():
            if partition.rpartition("-")[0] in self._deleted:
                continue
            end = -1
            for offset, records in sorted(batches):
                overlapping += offset < end
                end = max(end, offset + max(records, 1))
        return _finding(
            "offsets advance with what was acknowledged",
            not overlapping,
            f"{overlapping} acknowledged batches got an offset that was given before: nothing was written",
        )


def by_topic(records: Mapping[str, int]) -> dict[str, int]:
    """Return the sums by topic of what is counted by `topic-partition`."""
    sums: dict[str, int] = defaultdict(int)
    for partition, count in records.items():
        sums[partition.rpartition("-")[0]] += count
    return sums


def _replayed(pair: Pair) -> Iterator[Mapping[str, Any]]:
    """Yield the digest entries of the responses to a pair that was sent."""
    if pair["sent"] is not None:
        for answer in pair["answers"]:
            yield from answer["digest"]


def _names_other_replica(entry: Mapping[str, Any]) -> bool:
    return bool(entry.get("preferred", -1) >= 0 and not entry.get("records"))


def _no_transaction_is_open(transactions: list[str]) -> Finding:
    return _finding(
        "no transaction is left open",
        not transactions,
        f"{len(transactions)} transactions are open: readers of committed records wait behind them",
    )


def _finding(name: str, holds: bool, found: str) -> Finding:
    return {"check": name, "holds": holds, "found": "" if holds else found}
