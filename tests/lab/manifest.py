"""Expected contents of a capture, by everyone but kdissect: brokers' request logs, clients, tcpdump.

The manifest is one JSON file beside the captures. Rule: `exact` is true only if the brokers' logs and the
clients' own logs agree about every (API, version); otherwise `requests` are lower bounds.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from kio.schema.errors import ErrorCode

from tests.lab import clientlog, packets
from tests.lab.clients.job import Outcome
from tests.lab.requestlog import Served

Disagreements = dict[tuple[str, int], tuple[int, int]]
_ERROR_NAMES = {int(code): code.name.upper() for code in ErrorCode}


def requests(served: Iterable[Served], unanswered: Counter[tuple[str, int]] | None) -> list[dict[str, Any]]:
    """One row per API and version: how many requests were completed, how many of them with a response.

    `unanswered` counts, by folded name and version, what clients sent and no broker says to have completed:
    the capture may hold up to so many more requests (`requests_at_most`). None if nobody can tell.
    """
    total = Counter((s.api_key, s.api_name, s.api_version) for s in served)
    answered = Counter((s.api_key, s.api_name, s.api_version) for s in served if s.answered)
    return [
        {
            "api_key": key,
            "api_name": name,
            "api_version": version,
            "requests": total[key, name, version],
            "requests_at_most": None
            if unanswered is None
            else total[key, name, version] + unanswered[clientlog.folded_name(name), version],
            "answered": answered[key, name, version],
        }
        for key, name, version in sorted(total)
    ]


def errors(served: Sequence[Served]) -> list[dict[str, Any]] | None:
    """One row per API and error: how many responses carry it at least once. None if the brokers do not log
    it."""
    if any(s.errors is None for s in served):
        return None
    counts = Counter((s.api_key, s.api_name, code) for s in served for code in set(s.errors or ()))
    return [
        {
            "api_key": k,
            "api_name": n,
            "error_code": c,
            "error_name": _ERROR_NAMES.get(c, f"error {c}"),
            "responses": total,
        }
        for (k, n, c), total in sorted(counts.items())
    ]


def file_facts(capture: Path) -> dict[str, Any]:
    """Size, digest and packet count of a capture file."""
    seen = packets.count(capture)
    return {
        "file": capture.name,
        "bytes": capture.stat().st_size,
        "sha256": hashlib.sha256(capture.read_bytes()).hexdigest(),
        "packets": seen.packets,
        "connections": {"attempted": seen.attempted, "accepted": seen.accepted},
    }


def client_facts(
    client_id: str, library: str, role: str, served: Iterable[Served], outcome: Outcome | None
) -> dict[str, Any]:
    """One client: what it is, what the brokers say it asked, and what it counted itself (null if it was
    killed)."""
    own = [s for s in served if s.client_id == client_id]
    facts: dict[str, Any] = {
        "client_id": client_id,
        "library": library,
        "role": role,
        "connections": len({s.connection for s in own}),
        "requests": len(own),
        "throttle_ms": sum(s.throttle_ms for s in own),
        "outcome": None,
    }
    if outcome is not None:
        facts["outcome"] = {
            "version": outcome.version,
            "records": dict(sorted(outcome.records.items())),
            "failed": dict(sorted(outcome.failed.items())),
            "assignments": outcome.assignments,
            "commits": outcome.commits,
        }
    return facts


def disagreements(library: str, log: Path, client_id: str, served: Iterable[Served]) -> Disagreements:
    """Return (sent, completed) for each API and version of which a client and the brokers differ. Empty is
    good."""
    said = clientlog.sent(library, log)
    own = (s for s in served if s.client_id == client_id)
    done = Counter((clientlog.folded_name(s.api_name), s.api_version) for s in own)
    return {each: (said[each], done[each]) for each in sorted(said | done) if said[each] != done[each]}


def update(path: Path, entry: dict[str, Any]) -> None:
    """Put `entry` into the manifest in place of the one of the same name."""
    known = json.loads(path.read_text())["captures"] if path.exists() else []
    kept = [other for other in known if other["name"] != entry["name"]]
    kept.append(entry)
    kept.sort(key=lambda each: str(each["file"]))
    path.write_text(json.dumps({"captures": kept}, indent=1) + "\n")
