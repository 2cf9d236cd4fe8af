"""Reads clients' own logs: the requests each client library says it sent.

In: a library's debug log. Out: (api name, api version) of every request, as often as it was sent. Used to
check the brokers' request logs: two programs that know nothing of each other must agree before a capture is
accepted.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

# Each names the API in its own way; `folded_name` folds them to one spelling.
_SENT = {
    "librdkafka": re.compile(r"Sent (\w+)Request \(v(\d+),"),
    "java": re.compile(r"Sending (\w+) request with header RequestHeader\(.*?apiVersion=(\d+)"),
    "kafka-python": re.compile(r"kafka\.net\.connection .* Request \d+: (\w+)Request\(version=(\d+)"),
    "aiokafka": re.compile(r"aiokafka\.conn Request to \S+ \d+: (\w+)Request_v(\d+)"),
}


# Names that Kafka gave up, and clients kept.
_FORMER = {"apiversion": "apiversions", "offset": "listoffsets", "groupcoordinator": "findcoordinator"}


def folded_name(name: str) -> str:
    """Spell 'OFFSET_COMMIT', 'OffsetCommit' and 'offsetcommit' in one way."""
    plain = name.replace("_", "").lower()
    return _FORMER.get(plain, plain)


def sent(library: str, log: Path) -> Counter[tuple[str, int]]:
    """Count the requests in `log` by (folded api name, version)."""
    pattern = _SENT[library]
    counts: Counter[tuple[str, int]] = Counter()
    with log.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if (found := pattern.search(line)) is not None:
                counts[folded_name(found[1]), int(found[2])] += 1
    return counts
