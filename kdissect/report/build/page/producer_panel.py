"""Producers: their producer ids, gaps in sequence numbers, and their transactions from begin to end."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from kdissect.report.build.page.page_names import (
    PageNames,
    Plain,
    sorted_columns,
)
from kdissect.report.timeline.timeline_tables import (
    PRODUCERS,
    SEQUENCES,
    TRANSACTION_STEPS,
)

MOST_PRODUCERS, MOST_GAPS, MOST_TRANSACTIONAL, MOST_TRANSACTIONS = 300, 20, 40, 400
BEGINS = ("add_partitions", "add_offsets", "commit_offsets", "produce")
ENDS = ("commit", "abort")

Identity = tuple[Any, ...]


def describe_producers(names: PageNames) -> Plain:
    """Return who wrote under which producer id, most bytes first."""
    gaps = _gaps(names)
    result: dict[Identity, Plain] = {}
    for row in sorted_columns(names.partial, PRODUCERS).dicts():
        idempotent = (row["producer_id"] if row["producer_id"] is not None else -1) >= 0
        identity = (
            row["client_id"],
            row["client_host"],
            row["transactional_id"],
            row["producer_id"] if idempotent else None,
        )
        one = result.setdefault(
            identity,
            {
                "client": names.client(row["client_id"], row["client_host"]),
                "label": row["client_id"],
                "transactional_id": row["transactional_id"],
                "producer_id": identity[3],
                "epochs": [],
                "batches": 0,
                "records": 0,
                "bytes": 0,
                "errors": 0,
                "from": row["first_ns"],
                "to": row["last_ns"],
                "ref": names.row_ref(row),
                "gaps": [],
                "repeated": 0,
            },
        )
        for name, column in (
            ("batches", "batches"),
            ("records", "records"),
            ("bytes", "record_bytes"),
            ("errors", "errors"),
        ):
            one[name] += row[column]
        one["from"], one["to"] = min(one["from"], row["first_ns"]), max(one["to"], row["last_ns"])
        if idempotent and row["producer_epoch"] is not None:
            one["epochs"].append(row["producer_epoch"])
            missing, repeated = gaps.get((row["producer_id"], row["producer_epoch"]), ([], 0))
            one["gaps"], one["repeated"] = [*one["gaps"], *missing], one["repeated"] + repeated
    rows = sorted(result.values(), key=lambda one: (-one["bytes"], -one["batches"], repr(one)))
    for one in rows:
        one |= {"from": names.since(one["from"]), "to": names.since(one["to"])}
        epochs = sorted(set(one.pop("epochs")))
        one |= {
            "epochs": [epochs[0], epochs[-1]] if epochs else [],
            "gaps_omitted": max(len(one["gaps"]) - MOST_GAPS, 0),
        }
        one["gaps"] = one["gaps"][:MOST_GAPS]
    return {"rows": rows[:MOST_PRODUCERS], "omitted": max(len(rows) - MOST_PRODUCERS, 0)}


def _gaps(names: PageNames) -> dict[tuple[int, int], tuple[list[Plain], int]]:
    """Return, by producer id and epoch, missing sequence numbers and the number of repeated records."""
    runs: dict[Identity, list[dict[str, Any]]] = {}
    for row in sorted_columns(names.partial, SEQUENCES).dicts():
        if row["producer_id"] is not None:
            topic = names.topic(row["topic"], row["topic_id"])
            runs.setdefault((row["producer_id"], row["producer_epoch"], topic, row["partition"]), []).append(
                row
            )
    result: dict[tuple[int, int], tuple[list[Plain], int]] = {}
    for (producer, epoch, topic, partition), rows in sorted(runs.items(), key=lambda item: repr(item[0])):
        gaps, repeated = result.get((producer, epoch), ([], 0))
        rows.sort(key=lambda row: row["start"])
        covered = sum(row["stop"] - row["start"] for row in rows)
        repeated += max(sum(row["records"] for row in rows) - covered, 0)
        gaps = gaps + [
            {
                "topic": topic,
                "partition": partition,
                "epoch": epoch,
                "after": before["stop"] - 1,
                "before": after["start"],
                "missing": after["start"] - before["stop"],
                "ref": names.row_ref(after),
                "at": names.since(after["order_ns"]),
            }
            for before, after in pairwise(rows)
        ]
        result[producer, epoch] = gaps, repeated
    return result


def describe_transactions(names: PageNames) -> Plain:
    """Return the transactions of each transactional id in the order of time."""
    by_id: dict[str, list[dict[str, Any]]] = {}
    cut = 0
    for row in sorted_columns(names.partial, TRANSACTION_STEPS).dicts():
        if row["event"] is None:
            cut += row["events"]
        elif row["transactional_id"] is not None:
            by_id.setdefault(row["transactional_id"], []).append(row)
    for row in sorted_columns(names.partial, PRODUCERS).dicts():
        if row["transactional_id"] is not None:
            about = {
                "event": "produce",
                "asked_ns": row["first_ns"],
                "time_ns": row["first_ns"],
                "error_code": 0,
            }
            by_id.setdefault(row["transactional_id"], []).append(row | about)
    order = sorted(by_id, key=lambda one: (-len(by_id[one]), one))
    rows = [_history(names, one, by_id[one]) for one in order[:MOST_TRANSACTIONAL]]
    return {"rows": rows, "omitted": max(len(order) - MOST_TRANSACTIONAL, 0), "events_omitted": cut}


def _history(names: PageNames, transactional_id: str, events: Sequence[dict[str, Any]]) -> Plain:
    result: list[Plain] = []
    errors: dict[str, int] = {}
    inits = []
    running: Plain | None = None
    # A Produce of an ended epoch belongs to the previous transaction, unless that epoch is new (KIP-890).
    ended: set[tuple[Any, Any]] = set()
    for row in sorted(events, key=lambda row: (row["asked_ns"], row["event"])):
        if row["error_code"]:
            errors[row["error_name"]] = errors.get(row["error_name"], 0) + 1
            continue
        identity = row["producer_id"], row["producer_epoch"]
        if row["event"] == "init":
            inits.append(
                {
                    "at": names.since(row["time_ns"]),
                    "producer_id": row["producer_id"],
                    "epoch": row["producer_epoch"],
                    "timeout_ms": row["timeout_ms"],
                    "ref": names.row_ref(row),
                }
            )
            running = None
        elif row["event"] in BEGINS:
            if running is None and not (row["event"] == "produce" and identity in ended):
                running = {
                    "from": names.since(row["asked_ns"]),
                    "to": None,
                    "outcome": "open",
                    "epoch": row["producer_epoch"],
                    "ref": names.row_ref(row),
                    "end_ref": None,
                }
                result.append(running)
        elif row["event"] in ENDS:
            if running is None:
                running = {"from": None, "epoch": row["producer_epoch"], "ref": None}
                result.append(running)
            running |= {
                "to": names.since(row["time_ns"]),
                "outcome": row["event"],
                "end_ref": names.row_ref(row),
            }
            ended.add(identity)
            running = None
    outcomes = {outcome: sum(one["outcome"] == outcome for one in result) for outcome in (*ENDS, "open")}
    return {
        "id": transactional_id,
        "clients": sorted({names.client(row["client_id"], row["client_host"]) for row in events}),
        "transactions": result[:MOST_TRANSACTIONS],
        "omitted": max(len(result) - MOST_TRANSACTIONS, 0),
        "outcomes": outcomes,
        "errors": errors,
        "inits": inits[:50],
    }
