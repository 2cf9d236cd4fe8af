"""Checks for failures that no error code tells: success that wrote nothing, members without partitions, reads without records."""

from collections import defaultdict
from typing import Any

from kdissect.replay.disposition import Disposition

NOT_DUE = {  # by choice, because they are there already, or because the capture does not tell what they are
    each.value
    for each in (
        Disposition.POLICY,
        Disposition.INTER_BROKER,
        Disposition.RETRY,
        Disposition.HEADLESS,
        Disposition.UNDECODABLE,
    )
}
FEW = 3  # topics that are named


class RunChecks:
    """Takes pairs one by one; says at the end which checks hold."""

    def __init__(self) -> None:
        # Partition -> (offset, records) as acknowledged.
        self._bases: dict[str, list[tuple[int, int]]] = defaultdict(list)
        # Records by partition: a captured one, one of the target, a captured one.
        self._captured_records: dict[str, int] = defaultdict(int)
        self._replayed_records: dict[str, int] = defaultdict(int)
        self._due_records: dict[str, int] = defaultdict(int)
        self._captured_fetched = self._replayed_fetched = 0
        self._fetched_captured: dict[str, int] = defaultdict(int)
        self._fetched: dict[str, int] = defaultdict(int)
        self._assigned = [0, 0]  # in the capture, on the target
        self._acquired = [0, 0]  # by members of share groups
        self._epochs = [0, 0]  # whose end was told
        self._preferred = 0
        self._unacknowledged = 0

    def take(self, pair: dict[str, Any]) -> None:
        """Take in one pair."""
        take = {
            "Produce": self._produce,
            "Fetch": self._fetch,
            "SyncGroup": self._sync,
            "ConsumerGroupHeartbeat": self._sync,
            "ShareGroupHeartbeat": self._sync,
            "ShareFetch": self._share_fetch,
            "OffsetForLeaderEpoch": self._leader_epochs,
        }
        if pair["api"] in take:
            take[pair["api"]](pair)

    def _produce(self, pair: dict[str, Any]) -> None:
        records = pair["captured"].get("produced", {})
        good = {entry["where"] for entry in pair["captured"]["digest"] if not entry["error"]}
        due = pair["bucket"] not in NOT_DUE
        for where in records.keys() & good:
            self._captured_records[where] += records[where]
            self._due_records[where] += due * records[where]
        found = [entry for answer in pair["answers"] for entry in answer["digest"] if not entry["error"]]
        sent = [(where, count) for where, count in pair["produced"]]  # batch by batch, as they were sent
        for entry in found:
            place = next((at for at, (where, _) in enumerate(sent) if where == entry["where"]), None)
            count = 0 if place is None else sent.pop(place)[1]
            self._replayed_records[entry["where"]] += count
            if entry["offset"] >= 0:
                self._bases[entry["where"]].append((entry["offset"], count))
        if pair["bucket"] == Disposition.NO_ANSWER_DUE.value:
            self._unacknowledged += sum(records.values())

    def _fetch(self, pair: dict[str, Any]) -> None:
        if pair["sent"] is None:
            return
        self._captured_fetched += sum(entry.get("records", 0) for entry in pair["captured"]["digest"])
        for answer in pair["answers"]:
            for entry in answer["digest"]:
                self._replayed_fetched += entry.get("records", 0)
                self._preferred += entry.get("preferred", -1) >= 0 and not entry.get("records")

    def _sync(self, pair: dict[str, Any]) -> None:
        _count(self._assigned, pair, "assigned")

    def _share_fetch(self, pair: dict[str, Any]) -> None:
        _count(self._acquired, pair, "acquired")

    def _leader_epochs(self, pair: dict[str, Any]) -> None:
        _count(self._epochs, pair, "known")

    def records(self, names: dict[str, str]) -> dict[str, Any]:
        """Give records acknowledged by topic; `names` are those of the topics on the target."""
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
            "fetched_captured": self._captured_fetched,
            "fetched_replayed": self._replayed_fetched,
        }

    def found(self, run: dict[str, Any]) -> list[dict[str, Any]]:
        """Say of each check whether it holds."""
        swallowed = self._swallowed()
        missing, partly = self._missing(run["plan"]["names"]["topics"])
        left = run.get("open_transactions", [])
        seldom = [
            _check(name, bool(sums[1]), found.format(sums[0]))
            for name, sums, found in (
                (
                    "share members acquire records",
                    self._acquired,
                    "the capture's members acquired {} records, those on the target none",
                ),
                (
                    "leader epochs have an end",
                    self._epochs,
                    "the capture told the end of {} leader epochs, the target of none",
                ),
            )
            if sums[0]
        ]
        return [
            _check(
                "offsets advance with what was acknowledged",
                not swallowed,
                f"{swallowed} acknowledged batches got an offset that was given before: nothing was written",
            ),
            _check(
                "what was acknowledged is acknowledged",
                not missing,
                f"{missing:,} records that the captured cluster acknowledged were not acknowledged: {partly}",
            )
            | {"lacking": missing},
            _check(
                "members have partitions",
                not (self._assigned[0] and not self._assigned[1]),
                f"the capture assigned {self._assigned[0]} partitions, the target none",
            ),
            _check(
                "fetches bring records",
                not (self._captured_fetched and not self._replayed_fetched),
                f"captured fetches brought {self._captured_fetched} records, replayed ones none",
            ),
            _check(
                "no other replica is preferred",
                not self._preferred,
                f"{self._preferred} empty answers named another replica that was not followed",
            ),
            _check(
                "no transaction is left open",
                not left,
                f"{len(left)} transactions are open: readers of committed records wait behind them",
            ),
            *seldom,
        ]

    def _missing(self, names: dict[str, str]) -> tuple[int, str]:
        """Count acknowledged records of the capture that the target did not acknowledge, and say of which topics they are.

        Each partition is looked at alone: what one has too much of does not make up for what another one lacks.
        """
        missing: dict[str, int] = defaultdict(int)
        for where, due in self._due_records.items():
            topic, _, partition = where.rpartition("-")
            lacking = due - self._replayed_records.get(f"{names.get(topic, topic)}-{partition}", 0)
            if lacking > 0:
                missing[topic] += lacking
        all_due = by_topic(self._due_records)
        first = sorted(missing, key=lambda topic: -missing[topic])[:FEW]
        told = [f"{missing[topic]:,} of {all_due[topic]:,} of {topic}" for topic in first]
        return sum(missing.values()), ", ".join([*told, "…"] if len(missing) > FEW else told)

    def _swallowed(self) -> int:
        """Count batches that start before the end of the one acknowledged in front of them."""
        count = 0
        for given in self._bases.values():
            end = -1
            for offset, records in sorted(given):
                count += offset < end
                end = max(end, offset + max(records, 1))
        return count


def by_topic(records: dict[str, int]) -> dict[str, int]:
    """Add up what is given by `topic-partition`."""
    sums: dict[str, int] = defaultdict(int)
    for where, count in records.items():
        sums[where.rpartition("-")[0]] += count
    return sums


def _count(sums: list[int], pair: dict[str, Any], field: str) -> None:
    """Add what a pair's answers have of something: in the capture, and on the target."""
    if pair["sent"] is not None:
        sums[0] += sum(entry.get(field, 0) for entry in pair["captured"]["digest"])
        sums[1] += sum(entry.get(field, 0) for answer in pair["answers"] for entry in answer["digest"])


def _check(name: str, holds: bool, found: str) -> dict[str, Any]:
    return {"check": name, "holds": holds, "found": "" if holds else found}
