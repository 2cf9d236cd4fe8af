"""The same report by plain loops over rows: slow, obvious, and written apart from the code it checks."""

import math
from collections import defaultdict

from kdissect.report.model.call_figures import HISTOGRAM_EDGES_NS

LONGEST_NS = 1 << 48


def percentile(values, share):
    """Nearest rank: of n ascending values the one at position ceil(share n), counted from 1."""
    return sorted(values)[max(math.ceil(round(share * len(values), 9)), 1) - 1]


def latency(values):
    """Return the exact latency figures of a list, None if it is empty."""
    if not values:
        return None
    mean = sum(values) / len(values)
    cells = [0] * (len(HISTOGRAM_EDGES_NS) + 1)
    for value in values:
        cells[sum(value >= edge for edge in HISTOGRAM_EDGES_NS)] += 1
    return {
        "count": len(values),
        "sum_ns": sum(values),
        "mean_ns": round(mean),
        "min_ns": min(values),
        "p50_ns": percentile(values, 0.5),
        "p90_ns": percentile(values, 0.9),
        "p99_ns": percentile(values, 0.99),
        "p99_9_ns": percentile(values, 0.999),
        "max_ns": max(values),
        "variance_to_mean_ns": round(sum((value - mean) ** 2 for value in values) / len(values) / mean),
        "histogram": cells,
        "near_edges": sum(
            abs(value - edge) <= 0.004 * edge for value in values for edge in HISTOGRAM_EDGES_NS
        ),
    }


def sound(row):
    """Return whether a row has a latency that can be."""
    return row["latency_ns"] is not None and 0 <= row["latency_ns"] < LONGEST_NS


def counted_ns(row):
    """Return the latency that counts: of a long poll that was answered late, what is beyond its wait."""
    return row["latency_ns"] - (0 if row["idle_wait"] else row["wait_ns"] or 0)


def lossy(connection):
    """Return whether the capture misses bytes of a connection."""
    return connection["lost_bytes"] > 0 or (connection["bytes_to_server"] == 0) != (
        connection["bytes_to_client"] == 0
    )


def figures(rows, connections, service_total):
    """Return what is counted for any list of exchange rows."""
    count = lambda rule: sum(1 for row in rows if rule(row))  # noqa: E731
    total = lambda name: sum(row[name] or 0 for row in rows)  # noqa: E731
    highest = lambda values: max(values, default=0)  # noqa: E731
    unanswered = [connections[row["connection"]] for row in rows if row["status"] == "unanswered"]
    transfers = [
        row["response_last_ns"] - row["response_first_ns"]
        for row in rows
        if row["response_first_ns"] is not None
    ]
    begins = [
        row["request_first_ns"] if row["request_first_ns"] is not None else row["response_first_ns"]
        for row in rows
    ]
    ends = [
        row["response_last_ns"] if row["response_last_ns"] is not None else row["request_last_ns"]
        for row in rows
    ]
    service = [counted_ns(row) for row in rows if sound(row) and not row["idle_wait"]]
    return {
        "exchanges": len(rows),
        "answered": count(lambda row: row["status"] == "answered"),
        "no_response_expected": count(lambda row: row["status"] == "no_response_expected"),
        "unanswered": len(unanswered),
        "unanswered_lossy": sum(lossy(one) for one in unanswered),
        "unanswered_closed": sum(not lossy(one) and one["closed"] in ("fin", "rst") for one in unanswered),
        "unanswered_open": sum(not lossy(one) and one["closed"] == "open" for one in unanswered),
        "orphan_responses": count(lambda row: row["status"] == "orphan_response"),
        "error_responses": count(lambda row: row["error_code"] not in (None, 0)),
        "errors": total("error_count"),
        "faults": count(lambda row: row["fault"] is not None),
        "request_bytes": total("request_bytes"),
        "response_bytes": total("response_bytes"),
        "throttled": count(lambda row: (row["throttle_ms"] or 0) > 0),
        "throttle_ms": total("throttle_ms"),
        "throttle_max_ms": highest([row["throttle_ms"] or 0 for row in rows]),
        "pipelined": count(lambda row: (row["in_flight"] or 0) > 1),
        "in_flight_max": highest([row["in_flight"] or 0 for row in rows]),
        "acks_none": count(lambda row: row["acks"] == 0),
        "acks_leader": count(lambda row: row["acks"] == 1),
        "acks_all": count(lambda row: row["acks"] == -1),
        "transfer_ns": sum(transfers),
        "transfer_max_ns": highest(transfers),
        "untimed": count(lambda row: row["latency_ns"] is not None and not sound(row)),
        "doubtful": count(lambda row: lossy(connections[row["connection"]])),
        "first_time_ns": min(begins),
        "last_time_ns": max(ends),
        "time_share": round(sum(service) / service_total, 6),
        "service": latency(service),
        "idle": latency([counted_ns(row) for row in rows if sound(row) and row["idle_wait"]]),
    }


def grouped(rows, key):
    """Return lists of rows by key."""
    found = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return found


def client_of(row, connection):
    """Return who sent a row."""
    return (
        row["client_id"] if row["client_id"] is not None else connection["client_id"],
        connection["client_software_name"],
        connection["client_software_version"],
        connection["client_host"],
    )


def report(tables):
    """Return figures per API, client, broker, topic and error, and totals, from tables."""
    connections = {row["connection"]: row for row in tables["connections"].to_pylist()}
    rows = tables["exchanges"].to_pylist()
    exchange = {(row["connection"], row["ordinal"]): row for row in rows if row["ordinal"] is not None}
    partitions = tables["partitions"].to_pylist()
    names = {row["topic_id"]: row["topic"] for row in tables["names"].to_pylist()}
    total = sum(counted_ns(row) for row in rows if sound(row) and not row["idle_wait"])

    def by(key):
        return {name: figures(some, connections, total) for name, some in grouped(rows, key).items()}

    for row in partitions:
        row["label"] = row["topic"] or names.get(row["topic_id"], row["topic_id"])
    return {
        "totals": figures(rows, connections, total),
        "apis": by(lambda row: (row["api_key"], row["api_version"])),
        "clients": by(lambda row: client_of(row, connections[row["connection"]])),
        "brokers": by(
            lambda row: tuple(connections[row["connection"]][name] for name in ("server_host", "server_port"))
        ),
        "topics": topics(partitions, exchange, connections),
        "errors": errors(rows, partitions, exchange),
    }


def topics(partitions, exchange, connections):
    """Return figures per topic and API."""
    found = {}
    for key, some in grouped(partitions, lambda row: (row["label"], row["api_key"])).items():
        named = {
            (row["connection"], row["ordinal"]): exchange[row["connection"], row["ordinal"]] for row in some
        }
        codecs, clients = defaultdict(int), defaultdict(lambda: [0, 0, 0, 0])
        for row in named.values():
            clients[client_of(row, connections[row["connection"]])][0] += 1
        for row in some:
            if row["codec"] is not None:
                codecs[row["codec"]] += row["record_bytes"]
            sender = exchange[row["connection"], row["ordinal"]]
            sums = clients[client_of(sender, connections[row["connection"]])]
            for at, amount in enumerate(
                (row["records"] or 0, row["record_bytes"] or 0, row["error_code"] not in (None, 0)), 1
            ):
                sums[at] += amount
        found[key] = {
            "exchanges": len(named),
            "mentions": len(some),
            "records": sum(row["records"] or 0 for row in some),
            "batches": sum(row["batches"] or 0 for row in some),
            "record_bytes": sum(row["record_bytes"] or 0 for row in some),
            "errors": sum(row["error_code"] not in (None, 0) for row in some),
            "codecs": dict(codecs),
            "service": latency(
                [counted_ns(row) for row in named.values() if sound(row) and not row["idle_wait"]]
            ),
            "idle": latency([counted_ns(row) for row in named.values() if sound(row) and row["idle_wait"]]),
            "clients": {name: tuple(sums) for name, sums in clients.items()},
        }
    return found


def answered_at(row):
    """Return when a row was answered, or else asked."""
    return row["response_first_ns"] if row["response_first_ns"] is not None else row["request_first_ns"]


def errors(rows, partitions, exchange):
    """Return exchanges, partitions and the first location of each API key and error code.

    A location is time, file, packets, topic and partition.
    """
    seen = defaultdict(list)
    repeated = set()
    for row in partitions:
        if row["error_code"] not in (None, 0):
            sender = exchange[row["connection"], row["ordinal"]]
            seen[row["api_key"], row["error_code"]].append((sender, row))
            repeated.add((row["connection"], row["ordinal"], row["error_code"]))
    for row in rows:
        if (
            row["error_code"] not in (None, 0)
            and (row["connection"], row["ordinal"], row["error_code"]) not in repeated
        ):
            seen[row["api_key"], row["error_code"]].append((row, None))
    found = {}
    for key, sightings in seen.items():
        first = min(answered_at(row) for row, _ in sightings)
        found[key] = {
            "exchanges": len({(row["connection"], row["ordinal"]) for row, _ in sightings}),
            "partitions": sum(part is not None for _, part in sightings),
            "time_ns": first,
            "places": {
                (
                    row["capture_file"],
                    row["request_packet"],
                    part and part["label"],
                    part and part["partition"],
                )
                for row, part in sightings
                if answered_at(row) == first
            },
        }
    return found
