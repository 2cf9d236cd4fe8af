"""Writes captures/README.md, for people, from captures/manifest.json, for programs."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_OPENING = """\
# Captures

These are small captures of real Kafka clusters and real clients. `python -m tests.lab.record` made them on
the loopback interface of one machine. Segments are therefore up to 64 KiB long, and TCP checksums are
incomplete (offloading).

`manifest.json` says what each capture must hold. Its counts come from the request logs of the brokers, from
the logs and counters of the clients, and from tcpdump. None of them comes from kdissect. `requests` counts
requests that a broker completed. Up to `requests_at_most` were sent: the others were in flight when a
connection ended. Both counts are equal if `exact` is true.

This page is made from the manifest.
"""


def write(folder: Path) -> None:
    """Write the page for the captures in `folder`."""
    entries = json.loads((folder / "manifest.json").read_text())["captures"]
    (folder / "README.md").write_text("\n".join(_page(entries)) + "\n")


def _page(entries: list[dict[str, Any]]) -> Iterator[str]:
    yield _OPENING
    yield "| file | broker | packets | bytes | connections | requests | exact |"
    yield "|---|---|---:|---:|---:|---:|---|"
    for entry in entries:
        total = sum(row["requests"] for row in entry["expected"]["requests"])
        yield (
            f"| {entry['file']} | {entry['broker']['release']} × {entry['broker']['nodes']} | "
            f"{entry['packets']:,} "
            f"| {entry['bytes']:,} | {entry['connections']['attempted']} | {total:,} | "
            f"{'yes' if entry['exact'] else 'no'} |"
        )
    for entry in entries:
        yield from _section(entry)


def _section(entry: dict[str, Any]) -> Iterator[str]:
    yield f"\n## {entry['file']}\n\n{entry['told']}\n"
    yield "| client | library | role | requests | records |"
    yield "|---|---|---|---:|---|"
    for client in entry["clients"]:
        yield _client_row(client)
    versions: defaultdict[str, list[str]] = defaultdict(list)
    for row in entry["expected"]["requests"]:
        versions[row["api_name"]].append(f"v{row['api_version']} × {row['requests']:,}")
    yield "\nRequests: " + "; ".join(f"{name} {', '.join(each)}" for name, each in versions.items()) + "."
    told = [
        f"{client['client_id']} {name} × {count:,}"
        for client in entry["clients"]
        for name, count in (client["outcome"] or {"failed": {}})["failed"].items()
    ]
    if told:
        yield "\nFailures that clients reported: " + "; ".join(told) + "."
    if throttled := [row for row in entry["clients"] if row.get("throttle_ms")]:
        waits = (f"{row['client_id']} {row['throttle_ms'] / 1000:.3f} s" for row in throttled)
        yield "\nThrottled by quota: " + "; ".join(waits) + "."
    if noticed := entry.get("noticed"):
        yield "\nNoticed: " + "; ".join(f"{what} × {count:,}" for what, count in noticed.items()) + "."
    if entry.get("dropped_packets"):
        yield f"\ntcpdump reported {entry['dropped_packets']:,} dropped packets."
    if entry.get("edited"):
        yield f"\nEdited: {entry['edited']}."
    if errors := entry["expected"]["errors"]:
        told = (f"{row['api_name']} {row['error_name']} × {row['responses']}" for row in errors)
        yield "\nErrors: " + "; ".join(told) + "."


def _client_row(client: dict[str, Any]) -> str:
    told = client["outcome"] or {"version": "", "records": {}}
    records = ", ".join(f"{topic}: {count:,}" for topic, count in told["records"].items())
    return (
        f"| {client['client_id']} | {client['library']} {told['version']} | {client['role']} "
        f"| {client['requests']:,} | {records if client['outcome'] else 'killed'} |"
    )
