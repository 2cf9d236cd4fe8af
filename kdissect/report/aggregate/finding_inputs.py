"""Exchanges that findings rest on: counted per client, API, group and partition, with the first packets of each.

In come the columns of exchanges and partitions, out comes the part NOTABLE. A kind selects exchanges (errors, no answer,
throttled, versions that Kafka 4.0 refuses, fetches that came back at once with nothing …) and says by what they are told
apart. `second` (since the epoch) is set only for kinds whose course matters: requests for metadata and for group membership, and, in steps
of `STEP_S`, errors, so that a spell of errors can be told from two that are far apart.
"""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kdissect.protocol.api_keys import LONG_POLLS, QUORUM_ELECTION, SHARE_GROUPS, TRANSACTION_WORK, ApiKey
from kdissect.protocol.releases import RELEASES, serves
from kdissect.protocol.schema.registry import APIS
from kdissect.report.aggregate.grouping import (
    INT64_RANGE,
    Codes,
    Mask,
    RowGroups,
    TableColumns,
    encode,
    encode_range,
    group_codes,
    group_rows,
    sound_latencies,
    sum_by_group,
)
from kdissect.report.aggregate.histogram import Ints
from kdissect.report.aggregate.partial_tables import (
    FINDING_INPUTS,
    AnyColumn,
    roll_up,
    take_rows,
)

BEHIND_NS = 100_000_000
"""An answer that came this late to a request behind another may have stood in line."""

NS_PER_MS = 1_000_000
AT_ONCE_NS = 10_000_000
"""A fetch that is empty and took less than this did not wait for data (the default wait is 500 ms)."""

NS_PER_SECOND = 10**9
STEP_S = 5
CLIENT = ("connection", "client_id")
EXTRA = ("capture_file", "request_packet", "response_packet")


@cache
def _refused_versions() -> Mask:
    """Mark (API key, version) pairs that existed and that Kafka 4.0 does not serve, for keys and versions below 256 and 32."""
    refused = np.zeros((256, 32), bool)
    for key, api in APIS.items():
        refused[key, [version for version in api.versions if not serves(RELEASES[0], api, version)]] = True
    refused[sorted(SHARE_GROUPS)] = False  # newer than 4.0, and no client of old
    return refused


class Selection(NamedTuple):
    """Rows of exchanges that are worth a note, what tells them apart beside the client, when, and how much."""

    name: str
    rows: Ints
    keys: tuple[str, ...]
    time: Ints
    amount: Ints | None = None


def select_finding_inputs(
    exchanges: TableColumns, partitions: TableColumns, located: Ints, caller: RowGroups
) -> pa.Table:
    """Give the part NOTABLE."""
    found = [
        _noted(kind, exchanges, caller, {})
        for kind in _kinds(exchanges, partitions, located)
        if len(kind.rows)
    ]
    parts = np.flatnonzero((partitions.ints("error_code") != 0) & (located >= 0))
    if len(parts):
        keys = ("api_key", "code", "second", "group_id", "transactional_id", "topic", "topic_id", "partition")
        own: dict[str, AnyColumn] = {
            name: take_rows(partitions.plain(name), parts) for name in ("topic", "topic_id", "partition")
        }
        own["code"] = partitions.ints("error_code")[parts]
        rows = located[parts]
        found.append(
            _noted(Selection("error", rows, keys, _answered(exchanges)[rows]), exchanges, caller, own)
        )
    return roll_up(FINDING_INPUTS, pa.concat_tables(found)) if found else FINDING_INPUTS.schema.empty_table()


def _kinds(exchanges: TableColumns, partitions: TableColumns, located: Ints) -> Iterator[Selection]:
    asked, answered = exchanges.either("request_first_ns", "response_first_ns"), _answered(exchanges)
    # Before Kafka 0.8 keys meant other things.
    known = exchanges.known("api_key") & exchanges.known("api_version")
    key, version = exchanges.ints("api_key"), exchanges.ints("api_version")
    throttle = exchanges.ints("throttle_ms")
    gone = _refused_versions()
    in_table = known & (key >= 0) & (key < len(gone)) & (version >= 0) & (version < gone.shape[1])
    refused = in_table & gone[np.where(in_table, key, 0), np.where(in_table, version, 0)]
    acks, has_acks = exchanges.ints("acks"), exchanges.known("acks")
    group = known & ((key == ApiKey.JOIN_GROUP) | (key == ApiKey.LEAVE_GROUP) | (key == ApiKey.SYNC_GROUP))
    latency, sound = sound_latencies(exchanges)
    behind = (
        sound & ~exchanges.truths("idle_wait") & (exchanges.ints("in_flight") > 1) & (latency >= BEHIND_NS)
    )
    behind &= known & ~np.isin(key, [*LONG_POLLS])
    in_transaction = exchanges.known("transactional_id") & (exchanges.ints("error_code") == 0)
    in_transaction &= known & np.isin(key, [*TRANSACTION_WORK, ApiKey.END_TXN])
    ends = key == ApiKey.END_TXN
    selected: tuple[tuple[str, Mask, tuple[str, ...], Ints, Ints | None], ...] = (
        ("error", _top_errors(exchanges, partitions, located), ("api_key", "code", "second", "group_id", "transactional_id"), answered, None),
        ("unanswered", exchanges.equals("status", "unanswered"), ("api_key",), asked, None),
        ("throttled", throttle > 0, ("api_key",), answered, throttle),
        ("refused_version", refused, ("api_key", "api_version"), asked, None),
        ("acks_none", has_acks & (acks == 0), (), asked, None),
        ("acks_leader", has_acks & (acks == 1), (), asked, None),
        ("empty_fetch", _empty_at_once(exchanges, partitions, located), ("api_key",), asked, None),
        ("metadata", known & (key == ApiKey.METADATA), ("second",), asked, None),
        ("group", group, ("api_key", "group_id", "second"), asked, None),
        ("behind", behind, ("api_key",), asked, latency // NS_PER_MS),
        ("election", known & np.isin(key, [*QUORUM_ELECTION]), ("api_key", "second"), asked, None),
        ("transaction_work", in_transaction & ~ends, ("transactional_id",), asked, None),
        ("transaction_end", in_transaction & ends, ("transactional_id",), asked, None),
    )  # fmt: skip
    for name, mask, keys, time, amount in selected:
        rows = np.flatnonzero(mask)
        yield Selection(name, rows, keys, time[rows], None if amount is None else amount[rows])


def _answered(exchanges: TableColumns) -> Ints:
    return exchanges.either("response_first_ns", "request_first_ns")


def _top_errors(exchanges: TableColumns, partitions: TableColumns, located: Ints) -> Mask:
    """Mark exchanges with an error that no partition of theirs has."""
    mask: Mask = exchanges.ints("error_code") != 0
    parts = np.flatnonzero((partitions.ints("error_code") != 0) & (located >= 0))
    same = partitions.ints("error_code")[parts] == exchanges.ints("error_code")[located[parts]]
    mask[located[parts[same]]] = False
    return mask


def _empty_at_once(exchanges: TableColumns, partitions: TableColumns, located: Ints) -> Mask:
    latency, sound = sound_latencies(exchanges)
    mask: Mask = (
        sound
        & (latency < AT_ONCE_NS)
        & exchanges.known("api_key")
        & (exchanges.ints("api_key") == ApiKey.FETCH)
    )
    mask &= (exchanges.ints("error_code") == 0) & ~exchanges.known("fault")
    full = (located >= 0) & ((partitions.ints("record_bytes") > 0) | (partitions.ints("error_code") != 0))
    mask[located[full]] = False
    return mask


def _noted(
    kind: Selection, exchanges: TableColumns, caller: RowGroups, own: dict[str, AnyColumn]
) -> pa.Table:
    """Count rows by client and keys; of each group all rows of the earliest time are kept, one with the counts."""
    if "second" in kind.keys:
        step = STEP_S if kind.name == "error" else 1
        own = own | {"second": kind.time // (step * NS_PER_SECOND) * step}
    if "code" in kind.keys and "code" not in own:
        own = own | {"code": exchanges.ints("error_code")[kind.rows]}
    codes = [Codes(group_codes(caller).numbers[kind.rows], caller.count)]
    columns: dict[str, AnyColumn] = {}
    for name in (*CLIENT, *kind.keys, *EXTRA):
        columns[name] = own[name] if name in own else take_rows(exchanges.plain(name), kind.rows)
    codes += [_code(columns[name]) for name in kind.keys]
    groups = group_rows(*codes)
    earliest, latest = np.full(groups.count, INT64_RANGE.max), np.full(groups.count, INT64_RANGE.min)
    np.minimum.at(earliest, groups.of, kind.time)
    np.maximum.at(latest, groups.of, kind.time)
    amount = np.zeros(len(kind.rows), np.int64) if kind.amount is None else kind.amount
    most = np.zeros(groups.count, np.int64)
    np.maximum.at(most, groups.of, amount)
    kept = np.flatnonzero(kind.time == earliest[groups.of])
    of = groups.of[kept]
    leaders = np.unique(of, return_index=True)[1]
    counts = {
        "exchanges": sum_by_group(groups, np.ones(len(kind.rows), bool)),
        "amount": sum_by_group(groups, amount),
    }
    made: dict[str, AnyColumn] = {name: take_rows(column, kept) for name, column in columns.items()}
    for name, values in counts.items():
        made[name] = np.zeros(len(kept), np.int64)
        made[name][leaders] = values[of[leaders]]
    made |= {"kind": pa.repeat(pa.scalar(kind.name), len(kept)), "order_ns": earliest[of]}
    made |= {"first_ns": earliest[of], "last_ns": latest[of], "most": most[of]}
    for field in FINDING_INPUTS.schema:
        made.setdefault(field.name, pa.nulls(len(kept), field.type))
    return pa.table({name: made[name] for name in FINDING_INPUTS.schema.names}).cast(FINDING_INPUTS.schema)


def _code(column: AnyColumn) -> Codes:
    return encode_range(column.astype(np.int64)) if isinstance(column, np.ndarray) else encode(column)
