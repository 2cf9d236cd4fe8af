"""Reads of a run: fetched records by topic, and how far each group committed, beside the capture.

In: the Fetch pairs of a run one by one, and the final commits from its summary. Out: checks, and why more was
fetched than in the capture.

Only those captured records count as due that this capture also wrote: the target need not have what was in
the log before. A share may be missing, since what was fetched last may come after the last fetch.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

TOLERANCE = 0.1  # the share of records by which reads may differ
MOST_NAMED = 3  # topics or partitions in the sentence of a check

Pair = Mapping[str, Any]
Finding = dict[str, Any]


class RunReads:
    """Memory of all Fetch pairs."""

    def __init__(self) -> None:
        self.captured = self.replayed = 0
        self._due: dict[str, int] = defaultdict(int)  # records, by captured topic
        self._fetched: dict[str, int] = defaultdict(int)  # records, by topic of the target
        self._early = 0  # records in responses that had none of that topic in the capture

    def add(self, pair: Pair) -> None:
        """Add a Fetch; one that was not sent counts for nothing."""
        if pair["sent"] is None:
            return
        had_records = False
        for entry in pair["captured"]["digest"]:
            self.captured += entry.get("records", 0)
            had_records |= entry.get("records", 0) > 0
            self._due[_topic(entry)] += entry.get("written", 0)
        for entry in (entry for answer in pair["answers"] for entry in answer["digest"]):
            records = entry.get("records", 0)
            self.replayed += records
            self._fetched[_topic(entry)] += records
            self._early += 0 if had_records else records

    def findings(self, run: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield the checks of reads and of commits."""
        names = run["plan"]["names"]["topics"]
        short = {
            topic: (self._fetched.get(names.get(topic, topic), 0), due)
            for topic, due in self._due.items()
            if self._fetched.get(names.get(topic, topic), 0) < (1 - TOLERANCE) * due
        }
        named = [f"{fetched:,} of {due:,} of {topic}" for topic, (fetched, due) in sorted(short.items())]
        yield _finding("fetches bring as many records", named, "fetches brought fewer records: ")
        commits = [each for each in run.get("commits", ()) if each["short"]]
        commits.sort(key=lambda each: -each["short"])
        named = [
            f"group {each['group']}, {each['partition']}: {_or_nothing(each['replayed'])} instead of "
            f"{each['expected']}, "
            f"{each['short']:,} records"
            for each in commits
        ]
        yield _finding("commits reach as far", named, "commits fall short: ")

    def amplification(self) -> dict[str, Any] | None:
        """Return how many times as many records were fetched, and why; None if they are about as many."""
        if self.replayed <= (1 + TOLERANCE) * self.captured:
            return None
        again = self.replayed - self.captured - self._early
        reasons = [
            (self._early, "in responses that were empty in the capture: the target had them earlier"),
            (again, "in responses that had fewer in the capture: positions went back, or logs are longer"),
        ]
        return {
            "times": self.replayed / self.captured if self.captured else None,
            "reasons": [{"records": records, "reason": reason} for records, reason in reasons if records > 0],
        }


def _or_nothing(offset: int | None) -> str:
    return "no commit" if offset is None else str(offset)


def _topic(entry: Mapping[str, Any]) -> str:
    return str(entry["where"]).rpartition("-")[0]


def _finding(name: str, named: list[str], begin: str) -> Finding:
    shown = [*named[:MOST_NAMED], "…"] if len(named) > MOST_NAMED else named
    return {"check": name, "holds": not named, "found": begin + "; ".join(shown) if named else ""}
