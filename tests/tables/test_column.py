"""Facts of columns about themselves: which of them are names, and the values of messages that fill them.

Values of every column that has a source are compared with those that the plain codec reads.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.exchanges.filter import ExchangeFilter
from kdissect.exchanges.prescan import prescan_capture
from kdissect.exchanges.reader import ExchangeReader
from kdissect.protocol.codec.messages import decode_request, decode_response
from kdissect.protocol.columnar.registers import ROW
from kdissect.protocol.schema.registry import APIS
from kdissect.streams.flow_state import REQUEST_SIDE, RESPONSE_SIDE
from kdissect.tables.column import NO_NAME, NO_PAYLOAD, PAYLOAD, TEXT, Column
from kdissect.tables.exchange_schema import EXCHANGE_COLUMNS, PARTITION_COLUMNS
from kdissect.tables.schemas import COLUMNS, RECORD_COLUMNS
from tests.helpers import recorded
from tests.protocol.columnar.expected import Expected, expect

CAPTURES = ("rebalances.pcapng", "transactions.pcapng", "old-broker.pcap")
SIDES = (REQUEST_SIDE, RESPONSE_SIDE)
Key = tuple[int, int]
Messages = dict[str, Expected]


def every_column() -> list[Column]:
    return [column for columns in (*COLUMNS.values(), RECORD_COLUMNS) for column in columns]


def with_source(columns: tuple[Column, ...]) -> pytest.MarkDecorator:
    chosen = [column for column in columns if column.source is not None]
    return pytest.mark.parametrize("column", chosen, ids=[column.name for column in chosen])


def test_a_text_says_whether_it_is_a_name_and_nothing_else_does() -> None:
    for column in every_column():
        assert (column.names is not None) == (column.type == TEXT), column.name
    kinds = {column.names for column in every_column()}
    assert {None, NO_NAME, PAYLOAD, "host", "client", "topic", "group", "transaction"} < kinds


def test_a_payload_may_be_left_out() -> None:
    left_out = [column for column in every_column() if column.names == PAYLOAD]
    assert {column.name for column in left_out if column.null == NO_PAYLOAD} == {"key", "value"}
    assert all(column.null is not None for column in left_out)


def decoded(name: str) -> Iterator[tuple[Key, Messages]]:
    """Yield what the plain codec reads of the exchanges of a capture, by connection and ordinal."""
    splits = index_captures(open_inputs([str(recorded.CAPTURES / name)], "").files).splits
    reader = ExchangeReader(splits, (), prescan_capture(splits))
    for exchange in reader.exchanges(ExchangeFilter().header_mask):
        if exchange.ordinal is None or exchange.api_key not in APIS or exchange.api_version is None:
            continue
        api, version, found = APIS[exchange.api_key], exchange.api_version, {}
        for side, frame in ((REQUEST_SIDE, exchange.request), (RESPONSE_SIDE, exchange.response)):
            if frame is None:
                found[side] = Expected()
                continue
            whole = (
                decode_request(frame.data)
                if side == REQUEST_SIDE
                else decode_response(frame.data, api.key, version)
            )
            if whole.fault is not None or whole.body is None:
                break
            message = api.request if side == REQUEST_SIDE else api.response
            found[side] = expect(message, whole.version or version, dict(whole.header), dict(whole.body))
        else:
            yield (reader.identity(exchange.connection), exchange.ordinal), found


@cache
def messages(name: str) -> dict[Key, Messages]:
    return dict(decoded(name))


def text_or_number(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


@pytest.mark.slow
@with_source(EXCHANGE_COLUMNS)
def test_an_exchange_has_the_value_that_the_plain_codec_reads(column: Column) -> None:
    seen = 0
    for name in CAPTURES:
        for row in recorded.rows(name, "exchanges"):
            known = messages(name).get((row["connection"], row["ordinal"]))
            if known is None:
                continue
            value = known[column.source.side].message.get(column.source.column)
            assert row[column.name] == text_or_number(value), row
            seen += value is not None
    assert seen > 10


@pytest.mark.slow
@with_source(PARTITION_COLUMNS)
def test_a_partition_has_the_value_that_the_plain_codec_reads(column: Column) -> None:
    """Rows whose messages name each partition of a topic once, so that it is clear which is meant."""
    first, second = SIDES if column.source.side == REQUEST_SIDE else SIDES[::-1]
    seen = 0
    for name in CAPTURES:
        for row in recorded.rows(name, "partitions"):
            known = messages(name).get((row["connection"], row["ordinal"]))
            if known is None or row["topic"] is None or row["partition"] is None:
                continue
            named = [
                [
                    partition
                    for partition in known[side].rows
                    if (text_or_number(partition.get("topic")), partition.get("partition"))
                    == (row["topic"], row["partition"])
                ]
                for side in ((first,) if column.source.alone else (first, second))
            ]
            if max(map(len, named)) > 1:
                continue
            values = [
                part[0][role] for part in named if part for role in [role_of(column)] if role in part[0]
            ]
            assert row[column.name] == (values[0] if values else None), row
            seen += bool(values)
    assert seen > 10


def role_of(column: Column) -> str:
    """Return the role that fills the column of a row: rows of the oracle have roles as names."""
    return next(register.role for register in ROW if register.column == column.source.column)
