"""Columns of messages hold what the plain codec decodes, exchange by exchange."""

import numpy as np
import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.exchanges.prescan import new_processor, scan_pieces
from kdissect.protocol.codec.messages import decode_request
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import ORPHAN_RESPONSE, REQUEST_SIDE
from kdissect.streams.tls.keylog import NO_KEYS
from kdissect.tables import message_columns
from kdissect.tables.arrow_columns import text_column
from kdissect.tables.message_columns import MessageColumns, read_messages
from kdissect.tables.topic_ids import listening_nodes, named_topics
from tests.helpers.recorded import CAPTURES


@pytest.fixture(scope="module")
def batch() -> ExchangeBatch:
    splits = index_captures(open_inputs([str(CAPTURES / "refusals.pcapng")], "").files, 1 << 30).splits
    processor = new_processor(splits, NO_KEYS)
    batches = [*processor.feed(next(scan_pieces(splits, ())))]
    largest = max(batches, key=lambda each: len(each.exchanges))
    return largest._replace(arena=largest.arena.copy(), exchanges=largest.exchanges.copy())


def test_columns_agree_with_the_plain_codec(batch: ExchangeBatch) -> None:
    rows = np.flatnonzero(batch.exchanges["status"] != ORPHAN_RESPONSE)
    columns = MessageColumns.read(batch, REQUEST_SIDE, rows)
    clients = text_column(batch.arena, *columns.spans("client_id")).to_pylist()
    assert columns.reach == len(batch.exchanges)
    assert any(clients)
    for row in rows.tolist():
        request = batch.exchanges["request"]
        data = batch.arena[request["start"][row] : request["stop"][row]].tobytes()
        assert clients[row] == decode_request(data).header.get("client_id")


@pytest.mark.parametrize(("captured", "known"), [(12, 12), (11, 0)])
def test_a_client_id_may_be_cut_within_it(batch: ExchangeBatch, captured: int, known: int) -> None:
    exchanges = batch.exchanges.copy()
    rows = np.flatnonzero(exchanges["status"] != ORPHAN_RESPONSE)
    whole = text_column(
        batch.arena, *MessageColumns.read(batch, REQUEST_SIDE, rows).spans("client_id")
    ).to_pylist()
    row = next(row for row in rows.tolist() if len(whole[row]) < 12)
    start = int(exchanges["request"]["start"][row])
    arena = batch.arena.copy()
    arena[start + 8 : start + 10] = 0, 18
    arena[start + 10 : start + 28] = np.frombuffer(b"broker-1-fetcher-0", np.uint8)
    exchanges["request"]["stop"][row] = start + 10 + captured
    columns = MessageColumns.read(batch._replace(arena=arena, exchanges=exchanges), REQUEST_SIDE, rows)
    clients = text_column(arena, *columns.spans("client_id")).to_pylist()
    assert clients[row] == (b"broker-1-fetcher-0"[:known].decode() or None)


def test_parts_have_every_exchange_once(batch: ExchangeBatch, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [len(part.exchanges) for part, _, _ in read_messages(batch)] == [len(batch.exchanges)]
    monkeypatch.setattr(message_columns, "MOST_ROWS", 8)
    parts = [part.exchanges for part, _, _ in read_messages(batch)]
    assert len(parts) > 1
    assert np.array_equal(np.concatenate(parts), batch.exchanges)


def test_names_and_addresses_come_once(batch: ExchangeBatch) -> None:
    (_, request, response) = next(iter(read_messages(batch)))
    for table in (
        named_topics(batch, request),
        named_topics(batch, response),
        listening_nodes(batch, response),
    ):
        rows = [tuple(row.values()) for row in table.to_pylist()]
        assert len(set(rows)) == len(rows)
    assert listening_nodes(batch, response).num_rows
