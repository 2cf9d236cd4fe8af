"""What a capture must hold, as told by everyone but kdissect: brokers' request logs, clients, tcpdump.

The manifest is one JSON file beside the captures. Rule: `exact` is true only if the brokers' logs and the clients'
own logs agree about every (API, version); otherwise its counts are lower bounds.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from kafka import errors as _kafka_errors

from . import clientlog, packets
from .clients.job import Outcome
from .requestlog import Served

_ERROR_NAMES = {code: kind.message for code, kind in _kafka_errors.kafka_errors.items()}


def requests(served: Iterable[Served]) -> list[dict[str, Any]]:
    """One row per API and version: how many requests were completed, how many of them with a response."""
    total = Counter((s.api_key, s.api_name, s.api_version) for s in served)
    answered = Counter((s.api_key, s.api_name, s.api_version) for s in served if s.answered)
    return [
        {
            "api_key": k,
            "api_name": n,
            "api_version": v,
            "requests": total[k, n, v],
            "answered": answered[k, n, v],
        }
        for k, n, v in sorted(total)
    ]


def errors(served: Sequence[Served]) -> list[dict[str, Any]] | None:
    """One row per API and error: how many responses carry it at least once. None if the brokers do not log it."""
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


def client_facts(client_id: str, role: str, outcome: Outcome, served: Iterable[Served]) -> dict[str, Any]:
    """One client: what it is, what it counted itself, and what the brokers say it asked."""
    own = [s for s in served if s.client_id == client_id]
    return {
        "client_id": client_id,
        "library": outcome.library,
        "version": outcome.version,
        "role": role,
        "connections": len({s.connection for s in own}),
        "requests": sum(1 for _ in own),
        "records": dict(sorted(outcome.records.items())),
        "failed": dict(sorted(outcome.failed.items())),
        "assignments": outcome.assignments,
        "commits": outcome.commits,
    }


def disagreements(
    library: str, log: Path, client_id: str, served: Iterable[Served]
) -> dict[str, tuple[int, int]]:
    """Return where a client's log and the brokers' logs differ: 'api vN' to (sent, completed). Empty is good."""
    said = clientlog.sent(library, log)
    done = clientlog.folded(Counter((s.api_name, s.api_version) for s in served if s.client_id == client_id))
    return {f"{n} v{v}": (said[n, v], done[n, v]) for n, v in said | done if said[n, v] != done[n, v]}


def update(path: Path, entry: dict[str, Any]) -> None:
    """Put `entry` into the manifest in place of the one of the same name."""
    known = json.loads(path.read_text())["captures"] if path.exists() else []
    kept = [other for other in known if other["name"] != entry["name"]]
    kept.append(entry)
    kept.sort(key=lambda each: str(each["file"]))
    path.write_text(json.dumps({"captures": kept}, indent=1) + "\n")
