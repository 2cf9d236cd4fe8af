"""Random but plausible tables, of any size: a few clients and brokers, pipelined APIs, errors, losses and
hostile values."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from kdissect.tables.schemas import CONNECTIONS, EXCHANGES, PARTITIONS

APIS = {0: "Produce", 1: "Fetch", 3: "Metadata", 8: "OffsetCommit", 11: "JoinGroup", 18: "ApiVersions"}
ERRORS = {
    3: "UNKNOWN_TOPIC_OR_PARTITION",
    6: "NOT_LEADER_OR_FOLLOWER",
    -1: "UNKNOWN_SERVER_ERROR",
    27: "REBALANCE_IN_PROGRESS",
}
STATUSES = np.array(["answered", "no_response_expected", "unanswered", "orphan_response"])
SOFTWARE = [("apache-kafka-java", "3.9.0"), ("librdkafka", "2.6.1"), (None, None)]
CODECS = np.array(["none", "gzip", "snappy", "lz4", "zstd"])
START_NS = 1_760_000_000_000_000_000


def nulls_where(values, mask, kind):
    """Return an Arrow array of `kind` that is null where `mask` says so."""
    return pa.array(values, mask=np.asarray(mask)).cast(kind)


def tables(
    rng: np.random.Generator, exchanges: int, connections: int = 12, topics: int = 6
) -> Mapping[str, pa.Table]:
    """Return connections, exchanges, partitions, names and brokers that belong together."""
    numbers = rng.permutation(connections * 7)[:connections].astype(np.int64)
    return {
        "connections": connection_rows(rng, numbers),
        **exchange_rows(rng, np.sort(numbers[rng.integers(0, connections, exchanges)]), topics),
        "names": pa.table(
            {
                "topic_id": [topic_uuid(n) for n in range(0, topics, 2)],
                "topic": [f"topic-{n}" for n in range(0, topics, 2)],
            }
        ),
        "brokers": pa.table(
            {
                "node_id": pa.array([1, 2], pa.int32()),
                "host": ["10.0.0.1", "localhost"],
                "port": pa.array([9092, 9093], pa.int32()),
            }
        ),
    }


def topic_uuid(number: int) -> str:
    """Return the id of a topic."""
    return f"00000000-0000-4000-8000-{number:012d}"


def connection_rows(rng, numbers):
    """Return one row per connection number."""
    count = len(numbers)
    software = [SOFTWARE[n] for n in rng.integers(0, len(SOFTWARE), count)]
    first = START_NS + rng.integers(0, 10**9, count)
    columns = {
        "connection": numbers,
        "client_host": [f"10.1.0.{n}" for n in rng.integers(1, 5, count)],
        "client_port": rng.integers(30000, 60000, count),
        "server_host": [f"10.0.0.{n}" for n in rng.integers(1, 4, count)],
        "server_port": rng.choice([9092, 9093], count),
        "first_time_ns": first,
        "last_time_ns": first + rng.integers(0, 10**10, count),
        "opened": rng.choice(["handshake", "midstream"], count, p=[0.9, 0.1]),
        "closed": rng.choice(["fin", "rst", "open"], count),
        "protocol": rng.choice(["kafka", "tls", "unknown"], count, p=[0.8, 0.1, 0.1]),
        "client_id": [f"client-{n}" for n in rng.integers(0, 4, count)],
        "client_software_name": [name for name, _ in software],
        "client_software_version": [version for _, version in software],
        **{
            name: pa.nulls(count, pa.string())
            for name in ("sasl_mechanism", "sasl_outcome", "sasl_error", "tls_outcome")
        },
        "lost_bytes": np.where(rng.random(count) < 0.2, rng.integers(1, 9999, count), 0),
        "server_rtt_ns": nulls_where(
            rng.integers(10_000, 900_000, count), rng.random(count) < 0.3, pa.int64()
        ),
        "client_rtt_ns": nulls_where(
            rng.integers(10_000, 900_000, count), rng.random(count) < 0.3, pa.int64()
        ),
    }
    for field in CONNECTIONS:
        if field.name not in columns:
            columns[field.name] = rng.integers(0, 1000, count)
    return pa.table({name: pa.array(columns[name]) for name in CONNECTIONS.names}).cast(CONNECTIONS)


def waits_by_design(api, ordinal, latency):
    """Return which exchanges are idle waits, and the part of each latency that is one; some are late."""
    polls = (api == 1) & (latency > 2_000_000)
    late = polls & (ordinal % 7 == 3)
    idle = polls & ~late | (api == 11)
    return idle, np.where(idle, latency, np.where(late, latency // 3, 0))


def throttles(rng, count):
    """Return throttle times in ms, mostly 0."""
    return np.where(rng.random(count) < 0.01, rng.integers(1, 900, count), 0)


def acks(rng, status):
    """Return acks that fit the status."""
    return np.where(status == "no_response_expected", 0, rng.choice([1, -1], len(status)))


def exchange_rows(rng, connection, topics):
    """Return exchanges on the connections named row by row, and their partitions."""
    count = len(connection)
    ordinal = np.arange(count) - np.searchsorted(connection, connection)
    status = rng.choice(STATUSES, count, p=[0.93, 0.03, 0.03, 0.01])
    answered, orphan = status == "answered", status == "orphan_response"
    keys = np.array(list(APIS))
    api = rng.choice(keys, count, p=[0.4, 0.3, 0.1, 0.1, 0.05, 0.05])
    names = np.array([APIS[key] for key in keys])[np.searchsorted(keys, api)]
    sent = START_NS + np.cumsum(rng.integers(0, 50_000, count))
    latency = np.exp(rng.normal(14, 1.6, count)).astype(np.int64)
    latency = np.where(rng.random(count) < 0.002, -5_000, latency)
    received = sent + 1000 + latency
    idle, waits = waits_by_design(api, ordinal, latency)
    has_response = answered | orphan
    error = np.where(answered & (rng.random(count) < 0.04), rng.choice(list(ERRORS), count), 0)
    error_names = np.array([ERRORS.get(code, "NONE") for code in range(-1, 28)])[error + 1]
    exchanges = {
        "connection": connection,
        "ordinal": nulls_where(ordinal, orphan, pa.int64()),
        "status": status,
        "api_key": nulls_where(api, orphan, pa.int16()),
        "api_name": nulls_where(names, orphan, pa.string()),
        "api_version": nulls_where(rng.choice([7, 13], count), orphan, pa.int16()),
        "correlation_id": ordinal,
        "client_id": nulls_where(
            np.array(["client-0", "client-1", "réné", "x"])[connection % 4],
            orphan | (connection % 11 == 0),
            pa.string(),
        ),
        "request_first_ns": nulls_where(sent, orphan, pa.int64()),
        "request_last_ns": nulls_where(sent + 1000, orphan, pa.int64()),
        "response_first_ns": nulls_where(received, ~has_response, pa.int64()),
        "response_last_ns": nulls_where(received + rng.integers(0, 9999, count), ~has_response, pa.int64()),
        "latency_ns": nulls_where(latency, ~answered, pa.int64()),
        "idle_wait": nulls_where(idle, orphan, pa.bool_()),
        "wait_ns": nulls_where(waits, ~answered, pa.int64()),
        "in_flight": nulls_where(rng.integers(1, 6, count), orphan, pa.int32()),
        "request_bytes": nulls_where(rng.integers(20, 20_000, count), orphan, pa.int64()),
        "response_bytes": nulls_where(rng.integers(10, 90_000, count), ~has_response, pa.int64()),
        "request_packet": nulls_where(1 + 2 * np.arange(count), orphan, pa.int64()),
        "response_packet": nulls_where(2 + 2 * np.arange(count), ~has_response, pa.int64()),
        "capture_file": rng.choice(["a.pcap", "b.pcapng"], count),
        "error_code": nulls_where(error, ~answered | (api == 18), pa.int16()),
        "error_name": nulls_where(error_names, ~answered | (api == 18), pa.string()),
        "error_count": nulls_where((error != 0) * 2, ~answered | (api == 18), pa.int32()),
        "throttle_ms": nulls_where(throttles(rng, count), ~answered, pa.int32()),
        "acks": nulls_where(acks(rng, status), api != 0, pa.int16()),
        "replica_id": pa.nulls(count, pa.int32()),
        "group_id": pa.nulls(count, pa.string()),
        "generation": pa.nulls(count, pa.int32()),
        "transactional_id": pa.nulls(count, pa.string()),
        "fault": nulls_where(
            np.char.add("topics[2].name: length ", rng.integers(1, 999, count).astype(str)),
            rng.random(count) > 0.003,
            pa.string(),
        ),
    }
    table = pa.table({name: pa.array(exchanges[name]) for name in EXCHANGES.names}).cast(EXCHANGES)
    return {"exchanges": table, "partitions": partition_rows(rng, table, topics)}


def partition_rows(rng, exchanges, topics):
    """Return up to four partitions for every Produce, Fetch and OffsetCommit, by name in old versions and by
    id in new ones."""
    api = exchanges["api_key"].fill_null(-1).to_numpy()
    rows = np.repeat(np.arange(len(api)), np.where(np.isin(api, [0, 1, 8]), rng.integers(1, 5, len(api)), 0))
    count = len(rows)
    topic = rng.integers(0, topics, count)
    by_id = (exchanges["api_version"].fill_null(-1).to_numpy()[rows] == 13) & (api[rows] == 1)
    error = np.where(rng.random(count) < 0.5, exchanges["error_code"].fill_null(0).to_numpy()[rows], 0)
    error = np.where(rng.random(count) < 0.01, 3, error)
    records = rng.integers(0, 500, count)
    data = np.isin(api[rows], [0, 1])
    columns = {
        "connection": exchanges["connection"].to_numpy()[rows],
        "ordinal": exchanges["ordinal"].fill_null(0).to_numpy()[rows],
        "api_key": api[rows],
        "topic": nulls_where(np.char.add("topic-", topic.astype(str)), by_id, pa.string()),
        "topic_id": nulls_where(np.array([topic_uuid(n) for n in range(topics)])[topic], ~by_id, pa.string()),
        "partition": rng.integers(0, 12, count),
        "error_code": error,
        "error_name": np.array([ERRORS.get(code, "NONE") for code in range(-1, 28)])[error + 1],
        "records": nulls_where(records, ~data, pa.int64()),
        "batches": nulls_where(records // 10 + 1, ~data, pa.int64()),
        "record_bytes": nulls_where(records * 100, ~data, pa.int64()),
        "codec": nulls_where(CODECS[rng.integers(0, 5, count)], ~data, pa.string()),
        "offset": nulls_where(rng.integers(0, 1000, count), ~data, pa.int64()),
        "high_watermark": nulls_where(rng.integers(500, 1500, count), api[rows] != 1, pa.int64()),
    }
    for field in PARTITIONS:
        columns.setdefault(field.name, pa.nulls(count, field.type))
    return pa.table({name: pa.array(columns[name]) for name in PARTITIONS.names}).cast(PARTITIONS)


def in_batches(rng, whole, count):
    """Deal the rows of all tables out to `count` calls of `summarise`, each exchange with its partitions,
    rows shuffled."""
    where = rng.integers(0, count, whole["exchanges"].num_rows)
    keyed = {
        (connection, ordinal): call
        for connection, ordinal, call in zip(
            whole["exchanges"]["connection"].to_pylist(),
            whole["exchanges"]["ordinal"].to_pylist(),
            where.tolist(),
            strict=True,
        )
    }
    pairs = zip(
        whole["partitions"]["connection"].to_pylist(), whole["partitions"]["ordinal"].to_pylist(), strict=True
    )
    calls = {"exchanges": where, "partitions": np.array([keyed[pair] for pair in pairs], np.int64)}
    dealt = []
    for call in range(count):
        part = {}
        for name, table in whole.items():
            spread = calls.get(name, np.arange(table.num_rows) % count)
            part[name] = table.take(pa.array(rng.permutation(np.flatnonzero(spread == call))))
        dealt.append(part)
    return dealt
