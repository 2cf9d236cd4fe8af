"""The files of a run as values, written by hand: a summary, and pairs that went well, failed or were late."""

from __future__ import annotations

from typing import Any

MS = 1_000_000


def run(captured: int, **more: Any) -> dict[str, Any]:
    plan = {
        "accounting": {"captured": captured},
        "capture": {"files": ["a.pcap"], "start_ns": 0},
        "target": {"cluster_id": "b"},
        "settings": {"pace": "schedule", "speed": 1.0, "groups": "off", "offsets": "auto", "tls": None},
        "names": {"topics": {"orders": "t-orders"}},
    }
    offsets = {"rules": {}, "clamped": 0}
    connections = {"opened": 1, "refused": 0, "closed_by_peer": 0}
    facts = {
        "format": 1,
        "id": "r",
        "kdissect": "0",
        "stopped": "",
        "plan": plan,
        "open_transactions": [],
        "offsets": offsets,
    }
    return facts | {"synthetic": {}, "connections": connections, "peak_in_flight": 1, "peak_lines": 1} | more


def pair(index: int, **more: Any) -> dict[str, Any]:
    """A Produce of one record that went well on both sides."""
    made = {
        "index": index,
        "connection": 1,
        "ordinal": index,
        "api_key": 0,
        "api": "Produce",
        "client_id": "c",
        "bucket": "answered",
        "reason": "",
        "rewrites": [],
        "speed": 1.0,
        "produced": [["t-orders-0", 1]],
        "captured": {
            "version": 9,
            "time_ns": 5,
            "service_ns": 2 * MS,
            "error": 0,
            "status": "answered",
            "request_bytes": 9,
            "request": None,
            "answer": None,
            "produced": {"orders-0": 1},
            "digest": [{"where": "orders-0", "error": 0, "offset": index}],
        },
        "sent": {
            "version": 9,
            "node": 1,
            "parts": 1,
            "bytes": 9,
            "due_ns": index * MS,
            "sent_ns": index * MS,
            "received_ns": index * MS + 3 * MS,
            "cause": "",
            "throttle_ms": 0,
        },
        "answers": [
            {
                "version": 9,
                "bytes": 9,
                "body": None,
                "digest": [{"where": "t-orders-0", "error": 0, "offset": index}],
            }
        ],
    }
    return made | more


def error(index: int, captured: int, replayed: int) -> dict[str, Any]:
    made = pair(index)
    digest = [{"where": "orders-0", "error": captured, "offset": index}]
    made["captured"] = made["captured"] | {"error": captured, "digest": digest}
    made["answers"] = [
        {
            "version": 9,
            "bytes": 9,
            "body": None,
            "digest": [{"where": "t-orders-0", "error": replayed, "offset": -1}],
        }
    ]
    return made


def late(index: int, due_ms: int, lag_ms: int, service_ms: int | None) -> dict[str, Any]:
    """A request that was due and sent at some time, and answered after some time, or never."""
    made = pair(index)
    sent_ns = (due_ms + lag_ms) * MS
    received = None if service_ms is None else sent_ns + service_ms * MS
    made["sent"] |= {
        "due_ns": due_ms * MS,
        "sent_ns": sent_ns,
        "received_ns": received,
        "cause": "self" if lag_ms else "",
    }
    return made
