"""Exchanges that findings rest on, counted by client, API, group and partition, with the first packets.

In come the columns of exchanges and partitions, out comes the table FINDING_INPUTS. A `Selection` chooses
exchanges of one kind (errors, no response, throttled, versions that Kafka 4.0 refuses, empty fetches …) and
names the columns that tell them apart beside the client. `second` (since the epoch) is set for kinds whose
course in time matters: requests for metadata and group membership by second, errors in steps of `STEP_S`, so
that two separate spells are told apart. The `amount` of errors counts each exchange once for each code,
though it has a row for each partition.
"""

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kdissect.array_types import Bools, Int64s
from kdissect.protocol.api_keys import (
    LONG_POLLS,
    OFFSET_COMMITS,
    QUORUM_ELECTION,
    SHARE_GROUPS,
    TRANSACTION_WORK,
    ApiKey,
)
from kdissect.protocol.api_mask import in_apis
from kdissect.protocol.releases import RELEASES, serves
from kdissect.protocol.schema.registry import APIS
from kdissect.report.aggregate.calls import class_columns, classes_with, exchange_classes
from kdissect.report.aggregate.column_rows import AnyColumn, ColumnRows, plain_column, take_rows
from kdissect.report.aggregate.group_sums import highest_values, lowest_values, sum_by_group
from kdissect.report.aggregate.grouping import (
    Codes,
    RowGroups,
    TableColumns,
    encode,
    encode_numbers,
    encode_range,
    group_codes,
    group_rows,
)
from kdissect.report.aggregate.partial_rows import join_leaders, part_table, whole_numbers
from kdissect.report.aggregate.partial_tables import FINDING_INPUTS, table_fields
from kdissect.report.aggregate.sound_latency import sound_latencies
from kdissect.tables.array_batch import ArrayBatch
from kdissect.tables.coded_text import CodedText, NumberColumn, null_column, repeat_text
from kdissect.tables.column_values import every_row

MEMBERSHIP = (ApiKey.JOIN_GROUP, ApiKey.LEAVE_GROUP, ApiKey.SYNC_GROUP)

BEHIND_NS = 100_000_000
"""A response this late to a request behind another one may have waited for that other response."""

ERROR = "error"
NS_PER_MS = 1_000_000
AT_ONCE_NS = 10_000_000
"""An empty fetch that took less than this did not wait for data; the default wait is 500 ms."""

NS_PER_SECOND = 10**9
STEP_S = 5
CLIENT = ("connection", "client_id")
ERROR_KEYS = ("api_key", "code", "second", "group_id", "transactional_id", "replica_id")
EXTRA = ("capture_file", "request_packet", "response_packet", "request_first_ns", "response_first_ns")


@cache
def _refused_versions() -> Bools:
    """Return the mask of versions that existed and that Kafka 4.0 refuses: 256 API keys x 32 versions."""
    refused = np.zeros((256, 32), bool)
    for key, api in APIS.items():
        refused[key, [version for version in api.versions if not serves(RELEASES[0], api, version)]] = True
    refused[sorted(SHARE_GROUPS)] = False  # newer than 4.0: no client is too old for it
    return refused


class Selection(NamedTuple):
    """Rows of exchanges of one kind, the columns by which they are counted, their times and amounts."""

    name: str
    rows: Int64s
    keys: tuple[str, ...]
    time: Int64s
    amount: Int64s | None = None


def select_finding_inputs(
    exchanges: TableColumns, partitions: TableColumns, exchange_rows: Int64s, clients: RowGroups
) -> ArrayBatch:
    """Return the rows of FINDING_INPUTS."""
    selections = [
        selection for selection in _selections(exchanges, partitions, exchange_rows) if len(selection.rows)
    ]
    tables = [_counted(selection, exchanges, clients, {}) for selection in selections]
    parts = np.flatnonzero((partitions.ints("error_code") != 0) & (exchange_rows >= 0))
    errors_twice = len(parts) > 0 and any(selection.name == ERROR for selection in selections)
    if len(parts):
        keys = (*ERROR_KEYS, "topic", "topic_id", "partition")
        own: dict[str, AnyColumn] = {
            name: take_rows(partitions.column(name), parts) for name in ("topic", "topic_id", "partition")
        }
        own["code"] = partitions.ints("error_code")[parts]
        rows = exchange_rows[parts]
        once = _first_of_each(partitions, parts, rows, exchanges.rows)
        errors = Selection(ERROR, rows, keys, _answered(exchanges)[rows], once)
        tables.append(_counted(errors, exchanges, clients, own))
    return join_leaders(FINDING_INPUTS, tables, apart=not errors_twice)


def _first_of_each(partitions: TableColumns, parts: Int64s, rows: Int64s, exchanges: int) -> Int64s:
    """Return 1 for one partition of each exchange and error code, the lowest of all, and 0 for the others.

    It is the same one in whatever order the rows come. `rows` are the exchanges of the partitions `parts`.
    """
    names = (partitions.text(name).take(parts).ranks() for name in ("topic", "topic_id"))
    order = np.lexsort((*names, partitions.ints("partition")[parts]))
    codes = partitions.ints("error_code")[parts][order]
    groups = group_rows(Codes(rows[order], exchanges), encode(pa.array(codes)))
    once = np.zeros(len(rows), np.int64)
    once[order[groups.first]] = 1
    return once


class Choice(NamedTuple):
    """One kind of exchanges: the classes that may be of this kind, and which of their exchanges are.

    `of_rows` is None if all of them are. `amount` of None counts nothing.
    """

    name: str
    of_class: Bools
    of_rows: Callable[[], Bools] | None
    keys: tuple[str, ...]
    time: Int64s
    amount: Callable[[Int64s], Int64s] | None = None

    def rows(self, classes: RowGroups) -> Int64s:
        """Return the rows of exchanges of this kind; a capture has no exchanges of most kinds."""
        if not self.of_class.any():
            return np.zeros(0, np.int64)
        if self.of_rows is None:
            return np.flatnonzero(self.of_class.take(classes.of))
        mask = self.of_rows()
        return np.flatnonzero(mask if self.of_class.all() else mask & self.of_class.take(classes.of))


def _selections(
    exchanges: TableColumns, partitions: TableColumns, exchange_rows: Int64s
) -> Iterator[Selection]:
    for choice in _choices(exchanges, partitions, exchange_rows):
        rows = choice.rows(exchange_classes(exchanges))
        amount = None if choice.amount is None or not len(rows) else choice.amount(rows)
        yield Selection(choice.name, rows, choice.keys, choice.time[rows], amount)


def _choices(exchanges: TableColumns, partitions: TableColumns, exchange_rows: Int64s) -> tuple[Choice, ...]:
    sent, answered = exchanges.coalesce("request_first_ns", "response_first_ns"), _answered(exchanges)
    of_class = class_columns(exchanges)
    (key, has_key), (version, has_version) = (
        whole_numbers(of_class[name]) for name in ("api_key", "api_version")
    )
    # Before Kafka 0.8 keys had other meanings, and there were no versions.
    known = has_key & has_version
    refusals = _refused_versions()
    in_table = known & (key >= 0) & (key < len(refusals)) & (version >= 0) & (version < refusals.shape[1])
    refused = in_table & refusals[np.where(in_table, key, 0), np.where(in_table, version, 0)]
    idle = whole_numbers(of_class["idle_wait"])[0] != 0
    status = of_class["status"]
    assert isinstance(status, CodedText)
    waiting = status.equals("unanswered")
    throttle, (latency, sound) = exchanges.ints("throttle_ms"), sound_latencies(exchanges)
    acks, has_acks = exchanges.ints("acks"), exchanges.present("acks")
    is_end, with_some = key == ApiKey.END_TXN, partial(classes_with, exchanges)

    top_errors = partial(_top_errors, exchanges, partitions, exchange_rows)
    empty_at_once = partial(_empty_at_once, exchanges, partitions, exchange_rows)

    def is_behind() -> Bools:
        mask: Bools = sound & (exchanges.ints("in_flight") > 1) & (latency >= BEHIND_NS)
        return mask

    def in_transaction() -> Bools:
        return exchanges.present("transactional_id") & ~failed()

    def failed() -> Bools:
        mask: Bools = exchanges.ints("error_code") != 0
        return mask

    by_second = ("api_key", "group_id", "generation", "second")
    work = known & in_apis(key, (*TRANSACTION_WORK, ApiKey.END_TXN))
    behind = known & ~in_apis(key, LONG_POLLS) & ~idle & with_some("pipelined")
    with_errors = with_some("error_responses")
    return (
        Choice(ERROR, with_errors, top_errors, ERROR_KEYS, answered, np.ones_like),
        Choice(
            "failed_commit", with_errors & known & in_apis(key, OFFSET_COMMITS), failed, ERROR_KEYS, answered
        ),
        Choice("unanswered", waiting, None, ("api_key",), sent),
        Choice(
            "throttled", with_some("throttled"), lambda: throttle > 0, ("api_key",), answered, throttle.take
        ),
        Choice("refused_version", refused, None, ("api_key", "api_version"), sent),
        Choice("acks_none", with_some("acks_none"), lambda: has_acks & (acks == 0), (), sent),
        Choice("acks_leader", with_some("acks_leader"), lambda: has_acks & (acks == 1), (), sent),
        Choice("empty_fetch", has_key & (key == ApiKey.FETCH), empty_at_once, ("api_key",), sent),
        Choice("metadata", known & (key == ApiKey.METADATA), None, ("second",), sent),
        Choice("group", known & in_apis(key, MEMBERSHIP), None, by_second, sent),
        Choice("behind", behind, is_behind, ("api_key",), sent, lambda rows: latency[rows] // NS_PER_MS),
        Choice("election", known & in_apis(key, QUORUM_ELECTION), None, ("api_key", "second"), sent),
        Choice("transaction_work", work & ~is_end, in_transaction, ("transactional_id",), sent),
        Choice("transaction_end", work & is_end, in_transaction, ("transactional_id",), sent),
    )


def _answered(exchanges: TableColumns) -> Int64s:
    return exchanges.coalesce("response_first_ns", "request_first_ns")


def _top_errors(exchanges: TableColumns, partitions: TableColumns, exchange_rows: Int64s) -> Bools:
    """Return the mask of exchanges with an error that none of their partitions has."""
    mask: Bools = exchanges.ints("error_code") != 0
    parts = np.flatnonzero((partitions.ints("error_code") != 0) & (exchange_rows >= 0))
    same = partitions.ints("error_code")[parts] == exchanges.ints("error_code")[exchange_rows[parts]]
    mask[exchange_rows[parts[same]]] = False
    return mask


def _empty_at_once(exchanges: TableColumns, partitions: TableColumns, exchange_rows: Int64s) -> Bools:
    latency, sound = sound_latencies(exchanges)
    mask: Bools = sound & (latency < AT_ONCE_NS)
    mask &= (exchanges.ints("error_code") == 0) & ~exchanges.present("fault")
    full = (exchange_rows >= 0) & (
        (partitions.ints("record_bytes") > 0) | (partitions.ints("error_code") != 0)
    )
    mask[exchange_rows[full]] = False
    return mask


def _counted(
    selection: Selection, exchanges: TableColumns, clients: RowGroups, own: dict[str, AnyColumn]
) -> ArrayBatch:
    """Return counts by client and keys: of each group all rows of the earliest time, one with the counts."""
    if "second" in selection.keys:
        step = STEP_S if selection.name == ERROR else 1
        own = own | {"second": selection.time // (step * NS_PER_SECOND) * step}
    if "code" in selection.keys and "code" not in own:
        own = own | {"code": exchanges.ints("error_code")[selection.rows]}
    codes = [Codes(group_codes(clients).numbers[selection.rows], clients.count)]
    columns: dict[str, AnyColumn] = {}
    for name in (*CLIENT, *selection.keys, *EXTRA):
        columns[name] = own[name] if name in own else ColumnRows(exchanges.column(name), selection.rows)
    codes += [_code(columns[name]) for name in selection.keys]
    groups = group_rows(*codes)
    earliest, latest = lowest_values(groups, selection.time), highest_values(groups, selection.time)
    amount = np.zeros(len(selection.rows), np.int64) if selection.amount is None else selection.amount
    most = np.maximum(highest_values(groups, amount), 0)
    kept = np.flatnonzero(selection.time == earliest[groups.of])
    of = groups.of[kept]
    leaders = np.unique(of, return_index=True)[1]
    counts = {
        "exchanges": sum_by_group(groups, every_row(len(selection.rows))),
        "amount": sum_by_group(groups, amount),
    }
    made: dict[str, AnyColumn] = {name: take_rows(column, kept) for name, column in columns.items()}
    for name, values in counts.items():
        counted = np.zeros(len(kept), np.int64)
        counted[leaders] = values[of[leaders]]
        made[name] = counted
    made |= {"kind": repeat_text(selection.name, len(kept)), "order_ns": earliest[of]}
    made |= {"first_ns": earliest[of], "last_ns": latest[of], "most": most[of]}
    made |= {
        name: null_column(len(kept), kind)
        for name, kind, _ in table_fields(FINDING_INPUTS)
        if name not in made
    }
    return part_table(FINDING_INPUTS, made)


def _code(column: AnyColumn) -> Codes:
    column = plain_column(column)
    if isinstance(column, NumberColumn):
        return encode_numbers(column.values, column.present)
    return encode_range(column.astype(np.int64)) if isinstance(column, np.ndarray) else encode(column)
