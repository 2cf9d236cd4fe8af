"""Tables are the same whether large payload is read at once or when somebody looks at it."""

import os
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from kdissect.array_types import Bytes
from kdissect.capture.index.index import index_captures
from kdissect.capture.index.splits import Split
from kdissect.capture.inputs import CaptureFile
from kdissect.jit.rows import COMPILED
from kdissect.jit.unread_bytes import BEGIN, DESCRIPTOR, END, READ
from kdissect.protocol.codec.messages import encode_request, encode_response
from kdissect.protocol.records.record_decoder import Record, RecordBatch
from kdissect.protocol.records.record_encoder import encode_batch
from kdissect.streams import engine, payload_reader
from kdissect.streams.tls.keylog import NO_KEYS
from kdissect.streams.unread_payload import CaptureChanged, UnreadPayload, read_parts
from kdissect.tables.build import BATCH_BYTES, TableMaker, new_table_processor, paired_batches
from tests.helpers.conversations import CLIENT, SERVER, Sent, Talk, frames, pair
from tests.helpers.handmade_capture import write_capture
from tests.helpers.hostile_captures import spoil
from tests.helpers.in_batches import pieces_of, rows_in_order
from tests.streams.test_hostile import talk_of, write

CAPTURES = Path(__file__).parents[2] / "captures"
FOREIGN = 0xA5  # stands where nothing was read
WANTED = ("tcp_steps", "tcp_spans")
Sizes = list[int]

pytestmark = pytest.mark.skipif(not COMPILED, reason="only compiled loops leave payload unread")


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> Sizes:
    """Have all payload of directions in step unread; return the sizes of its segments as they come."""
    sizes: Sizes = []
    room, add = engine.StreamEngine.room_for_payload, UnreadPayload.add

    def spoilt(self: engine.StreamEngine, size: int) -> tuple[Bytes, int]:
        out, offset = room(self, size)
        out[:] = FOREIGN
        return out, offset

    def noted(self: UnreadPayload, path: str, descriptor: int, *columns: np.ndarray) -> None:
        sizes.extend(columns[1].tolist())
        add(self, path, descriptor, *columns)

    monkeypatch.setattr(engine.StreamEngine, "room_for_payload", spoilt)
    monkeypatch.setattr(UnreadPayload, "add", noted)
    for name, value in (("LEAST", 1), ("MOSTLY", -1), ("MEDIUM", 0), ("MANY_RANGES", 1)):
        monkeypatch.setattr(payload_reader, name, value)
    return sizes


def splits_of(path: Path, split_bytes: int) -> tuple[Split, ...]:
    return index_captures([CaptureFile(str(path), path.name)], split_bytes).splits


def tables(
    path: Path, split_bytes: int, reads_all: bool, batch_bytes: int = BATCH_BYTES
) -> dict[str, pa.Table]:
    """Return the tables of a capture."""
    splits = splits_of(path, split_bytes)
    processor = new_table_processor(splits, NO_KEYS, batch_bytes=batch_bytes, reads_all=reads_all)
    maker = TableMaker(splits, WANTED)
    made = [*maker.exchanges(paired_batches(pieces_of(splits), processor, WANTED))]
    return rows_in_order([*made, *maker.connections(processor)])


@pytest.mark.slow
@pytest.mark.parametrize("split_bytes", [6_000, 70_000])
@pytest.mark.parametrize(
    "name", ["broker-restart.pcapng", "old-broker.pcap", "rough-link.pcapng", "sasl.pcapng"]
)
def test_recorded_captures_have_the_same_tables(name: str, split_bytes: int, unread: Sizes) -> None:
    expected = tables(CAPTURES / name, split_bytes, reads_all=True)
    assert not unread
    assert tables(CAPTURES / name, split_bytes, reads_all=False) == expected
    assert sum(unread) > 10_000
    assert expected["exchanges"].num_rows > 100


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_hostile_captures_have_the_same_tables(seed: int, tmp_path: Path, unread: Sizes) -> None:
    chance = random.Random(seed)
    first = 40 * seed
    wrecks = [[spoil(talk_of(number), number)] for number in range(first, first + 40)]
    write(tmp_path / "wrecks.pcap", wrecks, chance)
    split_bytes = chance.choice((5_000, 40_000, 300_000))
    expected = tables(tmp_path / "wrecks.pcap", split_bytes, reads_all=True)
    assert tables(tmp_path / "wrecks.pcap", split_bytes, reads_all=False) == expected
    assert len(unread) > 100


def records(chance: random.Random) -> bytes:
    """Return batches of a record each."""
    batch = RecordBatch(0, 2, 0, 7, False, None)
    sizes = chance.choices((100, 3_000, 20_000, 60_000), k=chance.choice((1, 1, 4)))
    return b"".join(
        encode_batch([Record(batch, 5, 1_000, None, chance.randbytes(size), ())]) for size in sizes
    )


def produce(chance: random.Random, number: int, acks: int) -> bytes:
    client = chance.choice(("me", "me", "x" * 20_000))
    header = {"request_api_key": 0, "request_api_version": 9, "correlation_id": number, "client_id": client}
    partitions = [{"index": index, "records": records(chance)} for index in range(chance.choice((1, 5)))]
    body = {"acks": acks, "timeout_ms": 0, "topic_data": [{"name": "orders", "partition_data": partitions}]}
    return encode_request(header, {"transactional_id": None, **body})


def produced(number: int) -> bytes:
    partition = {
        "index": 0,
        "error_code": 0,
        "base_offset": 5,
        "log_append_time_ms": -1,
        "log_start_offset": 0,
    }
    partition |= {"record_errors": [], "error_message": None}
    topics = [{"name": "orders", "partition_responses": [partition]}]
    return encode_response(0, 9, {"correlation_id": number}, {"responses": topics, "throttle_time_ms": 0})


def large_talk(seed: int) -> Talk:
    """Return a conversation with some requests in flight, most of them of many segments."""
    chance = random.Random(seed)
    streams, waiting, sent = (bytearray(), bytearray()), list[int](), list[Sent]()
    now = 1_700_000_000_000_000_000

    def say(side: int, body: bytes) -> None:
        nonlocal now
        now += 1_000_000
        for part in (len(body).to_bytes(4, "big") + body[:1444], body[1444:]):
            at = len(streams[side])
            streams[side].extend(part)
            sent.append(Sent(now, side, at, len(streams[side])))

    for number in range(20):
        acks = chance.choice((0, 1, 1))
        say(CLIENT, produce(chance, number, acks))
        waiting += [number] * acks
        while waiting and chance.random() < 0.6:
            say(SERVER, produced(waiting.pop(0)))
    pairs = pair((bytes(streams[0]), bytes(streams[1])))
    if chance.random() < 0.4:
        begins = frames(streams[CLIENT])[10][0]
        streams[CLIENT][begins : begins + 4] = b"\x7f\xff\xff\xff"  # no length of a frame
    return Talk(f"large {seed}", (bytes(streams[0]), bytes(streams[1])), sent, pairs)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_large_messages_have_the_same_tables_whatever_happened(
    seed: int, tmp_path: Path, unread: Sizes
) -> None:
    chance = random.Random(seed)
    write(
        tmp_path / "wrecks.pcap",
        [[spoil(large_talk(4 * seed + at), 4 * seed + at)] for at in range(4)],
        chance,
    )
    split_bytes, batch_bytes = chance.choice((20_000, 100_000, 400_000)), seed % 2 * BATCH_BYTES
    expected = tables(tmp_path / "wrecks.pcap", split_bytes, reads_all=True)
    assert tables(tmp_path / "wrecks.pcap", split_bytes, False, batch_bytes) == expected
    assert len(unread) > 4


def large_requests(path: Path, count: int = 40) -> Path:
    """Write a capture of Produce requests of 60 KB."""
    batch, talk = RecordBatch(0, 2, 0, 7, False, None), []
    for number in range(count):
        value = random.Random(number).randbytes(60_000)
        header = {"request_api_key": 0, "request_api_version": 9, "correlation_id": number, "client_id": "me"}
        partition = {"index": 0, "records": encode_batch([Record(batch, 5, 1_000, None, value, ())])}
        topics = [{"name": "orders", "partition_data": [partition]}]
        body = {"transactional_id": None, "acks": 1, "timeout_ms": 0, "topic_data": topics}
        talk += [(True, encode_request(header, body)), (False, produced(number))]
    return write_capture(path, talk)


@pytest.fixture
def for_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload_reader, "MANY_RANGES", 1)


@pytest.mark.usefixtures("for_few")
def test_large_segments_stay_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left: Sizes = []
    clear = UnreadPayload.clear

    def noted(self: UnreadPayload) -> None:
        rows = self.rows[self.rows[:, DESCRIPTOR] != READ]
        left.extend((rows[:, END] - rows[:, BEGIN]).tolist())
        clear(self)

    monkeypatch.setattr(UnreadPayload, "clear", noted)
    path = large_requests(tmp_path / "large.pcap")
    expected = tables(path, 500_000, reads_all=True)
    assert not left
    assert tables(path, 500_000, reads_all=False) == expected
    assert expected["partitions"]["records"].to_pylist() == [1] * 40


@pytest.mark.usefixtures("for_few")
def test_a_capture_that_became_shorter_is_an_error(tmp_path: Path) -> None:
    path = large_requests(tmp_path / "large.pcap")
    splits = splits_of(path, 500_000)
    pieces = pieces_of(splits)
    processor = new_table_processor(splits, NO_KEYS, reads_all=False)
    maker = TableMaker(splits)
    os.truncate(path, path.stat().st_size - 30_000)
    with pytest.raises(CaptureChanged, match=r"large\.pcap became shorter"):
        list(maker.exchanges(paired_batches(pieces, processor, ())))


def test_files_are_closed_with_their_rows(tmp_path: Path) -> None:
    (tmp_path / "capture").write_bytes(b"0123456789")
    payload, arena = UnreadPayload(), np.zeros(30, np.uint8)
    with (tmp_path / "capture").open("rb") as file:
        three = np.array([20, 5, 11]), np.array([4, 3, 2]), np.array([6, 0, 3])
        payload.add("capture", file.fileno(), *three)
    assert payload.rows[:, BEGIN].tolist() == [5, 11, 20]
    assert read_parts(payload.rows, arena, np.array([0, 12]), np.array([6, 13])) == 2
    assert arena[5:8].tobytes() + arena[11:13].tobytes() == b"01234"
    assert not arena[20:24].any()
    assert read_parts(payload.rows, arena, np.array([0]), np.array([30])) == 1
    assert arena[20:24].tobytes() == b"6789"
    descriptor = abs(int(payload._files["capture"].fileno()))
    payload.clear()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
