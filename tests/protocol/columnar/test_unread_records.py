"""A walk over messages whose bytes are in a file gives what it gives when they are there, and reads few."""

import itertools
import os
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest

from kdissect.array_types import Bytes, Int64s
from kdissect.jit.unread_bytes import (
    BEGIN,
    DESCRIPTOR,
    END,
    NOTHING_UNREAD,
    PLACE,
    SHORTER,
    UNREAD_FIELDS,
    is_shorter,
)
from kdissect.protocol.codec.messages import encode_request, encode_response
from kdissect.protocol.columnar.batch_reader import Columns, read_listed
from kdissect.protocol.columnar.program_cache import library
from kdissect.protocol.columnar.unread_records import SAMPLE_BYTES
from kdissect.protocol.columnar.vm_state import Reason
from kdissect.protocol.records.batches import HEADER_BYTES
from kdissect.protocol.records.record_decoder import Record, RecordBatch
from kdissect.protocol.records.record_encoder import encode_batch
from kdissect.protocol.schema.registry import APIS
from tests.helpers.kafka_python_records import record_set
from tests.helpers.random_messages import random_message
from tests.protocol.columnar.test_batch_reader import ROUNDS, Frame

FETCH, PRODUCE, METADATA = 1, 0, 3
FOREIGN = 0xA5  # stands where nothing was read
BATCH = RecordBatch(0, 2, 0, 7, False, None)


def batch_of(rng: Random, size: int) -> bytes:
    """Return a batch with one record of random bytes."""
    return encode_batch([Record(BATCH, 5, 1_700_000_000_000, b"key", rng.randbytes(size), ())])


def record_sets(rng: Random) -> list[bytes]:
    """Return records as they come, some of them damaged."""
    large = batch_of(rng, 200_000)
    value = {"timestamp": 1, "key": None, "value": rng.randbytes(40_000), "headers": []}
    longer = bytearray(large)
    longer[8:12] = (1 << 30).to_bytes(4, "big")
    shorter = bytearray(large)
    shorter[8:12] = (10).to_bytes(4, "big")
    unknown = bytearray(batch_of(rng, 50_000) + large)
    unknown[-len(large) + 16] = 77
    return [
        large,
        b"".join(batch_of(rng, 30_000) for _ in range(5)),
        b"".join(batch_of(rng, 300) for _ in range(300)),
        batch_of(rng, 100_000) + large[:30_000],
        batch_of(rng, 100_000) + large[:40],
        record_set(0, 0, (value,) * 4),
        record_set(1, 2, (value,) * 3),
        bytes(longer),
        bytes(shorter),
        bytes(unknown),
        rng.randbytes(90_000),
        b"",
    ]


def with_sets(rng: Random, value: Any, sets: list[bytes]) -> Any:
    """Return a message whose records are some of these."""
    if isinstance(value, list):
        return [with_sets(rng, one, sets) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        name: rng.choice(sets) if name == "records" and one is not None else with_sets(rng, one, sets)
        for name, one in value.items()
    }


def message(rng: Random, key: int, version: int, sets: list[bytes]) -> Frame:
    """Return a random message with such records: a Fetch response, or a request of another API."""
    api = APIS[key]
    if key == FETCH:
        body = with_sets(rng, random_message(rng, api.response, version), sets)
        return Frame(encode_response(key, version, {"correlation_id": 1}, body), key, version, True)
    header = {"request_api_key": key, "request_api_version": version, "correlation_id": 1, "client_id": "me"}
    body = with_sets(rng, random_message(rng, api.request, version), sets)
    return Frame(encode_request(header, body), key, version, False)


def many_names(rng: Random) -> list[Frame]:
    """Return messages that have to be read from the first byte to the last."""
    header = {"request_api_key": METADATA, "request_api_version": 8, "correlation_id": 1, "client_id": "me"}
    body = random_message(rng, APIS[METADATA].request, 8)
    body["topics"] = [{"name": f"topic-{number}" * 9} for number in range(1000)]
    whole = encode_request(header, body)
    return [Frame(data, METADATA, 8, False) for data in (whole, whole + b"left over", whole[:-20_000])]


class Laid(NamedTuple):
    """Messages one behind another in an arena."""

    arena: Bytes
    entries: Int64s
    spans: Int64s

    def read(self, arena: Bytes, unread: Int64s) -> Columns:
        return read_listed(arena, self.entries, self.spans, unread=unread)


def laid_out(frames: list[Frame], lost: int = 0) -> Laid:
    """Lay messages out; the last one lacks its last `lost` bytes."""
    stops = np.cumsum([len(frame.data) for frame in frames])
    starts = np.append(0, stops[:-1])
    kept = stops.copy()
    kept[-1] -= lost
    kinds = (np.array([getattr(frame, name) for frame in frames]) for name in ("key", "version", "response"))
    key, version, response = kinds
    entries = library().entries(key.astype(np.int16), version.astype(np.int16), response)
    arena = np.frombuffer(b"".join(frame.data for frame in frames), np.uint8).copy()
    return Laid(arena, entries, np.stack([starts, kept, stops], axis=1))


def in_file(rng: Random, arena: Bytes, path: Path) -> tuple[Bytes, Int64s]:
    """Write an arena to a file, in pieces with others between. Return it without most, and its rows."""
    edges = [0]
    while edges[-1] < len(arena):
        edges.append(min(edges[-1] + rng.choice((10, 700, 20_000, 65_483)), len(arena)))
    left, rows, written = np.full(len(arena), FOREIGN, np.uint8), [], bytearray()
    for begin, end in itertools.pairwise(edges):
        if rng.random() < 0.1:
            left[begin:end] = arena[begin:end]
            continue
        written += b"between"
        rows.append((begin, end, len(written), -1))
        written += arena[begin:end].tobytes()
    path.write_bytes(written)
    unread = np.array(rows, np.int64).reshape(-1, UNREAD_FIELDS)
    unread[:, DESCRIPTOR] = os.open(path, os.O_RDONLY)
    return left, unread


def assert_same(found: Columns, expected: Columns) -> None:
    for name in ("messages", "partitions", "nodes"):
        one, other = getattr(found, name), getattr(expected, name)
        assert (one.message == other.message).all()
        assert (one.present == other.present).all()
        for register in one.registers:
            get = "integers" if register.kind == "integer" else "spans"
            columns = zip(
                getattr(one, get)(register.column), getattr(other, get)(register.column), strict=True
            )
            assert all((mine == theirs).all() for mine, theirs in columns), register
    assert (found.records.summaries == expected.records.summaries).all()
    for name in ("error_code", "error_count", "has_error", "fault_reason", "fault_position", "fault_row"):
        assert (getattr(found, name) == getattr(expected, name)).all(), name


@pytest.mark.slow
def test_it_is_the_same_message_wherever_its_bytes_are(tmp_path: Path) -> None:
    rng = Random(5)
    sets = record_sets(rng)
    kinds = [(key, version) for key in (PRODUCE, FETCH, METADATA) for version in APIS[key].versions]
    for number in range(ROUNDS):
        frames = [message(rng, *rng.choice(kinds), sets) for _ in range(60)]
        frames.insert(9, Frame(rng.randbytes(70_000), 999, 0, False))  # not known to anybody
        frames += many_names(rng)
        laid = laid_out(frames, lost=rng.randrange(40))
        left, unread = in_file(rng, laid.arena, tmp_path / str(number))
        found = laid.read(left, unread)
        os.close(int(unread[:, DESCRIPTOR].max()))
        expected = laid.read(laid.arena, NOTHING_UNREAD)
        assert_same(found, expected)
        assert (expected.fault_reason == Reason.NONE).sum() > 40
        has_no_records = np.array([frame.key == METADATA or frame.key == 999 for frame in frames])
        for start, stop, _ in laid.spans[has_no_records].tolist():
            assert (left[start:stop] == laid.arena[start:stop]).all()
        sets_of = expected.partitions.spans("record_set")
        for start, length in zip(*(values.tolist() for values in sets_of), strict=True):
            stop = start + min(length, HEADER_BYTES + SAMPLE_BYTES)
            assert start < 0 or (left[start:stop] == laid.arena[start:stop]).all()


def test_most_of_a_large_batch_stays_unread(tmp_path: Path) -> None:
    rng = Random(6)
    batch = batch_of(rng, 1_000_000)
    laid = laid_out([message(rng, PRODUCE, 9, [batch]) for _ in range(5)])
    left, unread = in_file(rng, laid.arena, tmp_path / "capture")
    found = laid.read(left, unread)
    os.close(int(unread[:, DESCRIPTOR].max()))
    assert set(found.records.column("records").tolist()) == {1}
    assert (left == laid.arena).sum() < len(left) // 4
    assert not is_shorter(unread)


def test_a_file_that_became_shorter_is_noted(tmp_path: Path) -> None:
    rng = Random(7)
    laid = laid_out([message(rng, PRODUCE, 9, [batch_of(rng, 100_000)])])
    (tmp_path / "capture").write_bytes(laid.arena[:100].tobytes())
    unread = np.zeros((1, UNREAD_FIELDS), np.int64)
    unread[0, [BEGIN, END, PLACE]] = 0, len(laid.arena), 0
    unread[0, DESCRIPTOR] = os.open(tmp_path / "capture", os.O_RDONLY)
    laid.read(np.zeros_like(laid.arena), unread)
    assert unread[0, DESCRIPTOR] == SHORTER
    assert is_shorter(unread)
