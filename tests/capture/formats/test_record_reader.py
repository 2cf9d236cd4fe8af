"""Reading records in chunks: any chunk size gives the same records, and reading stops where it should."""

from collections.abc import Iterator

import pytest

from kdissect.capture.formats import pcap as pcap_format
from kdissect.capture.formats.record_reader import (
    BYTES_PER_RECORD,
    SMALLEST_CHUNK,
    ReadOutcome,
    RecordLayout,
    RecordReader,
)
from kdissect.capture.formats.record_table import AT, CAPTURED, RECORD_COLUMNS, START, STOP, TIME_NS
from kdissect.capture.index.splits import CaptureFormat, Interface, interface_table
from tests.capture.memory_storage import MemoryStorage
from tests.helpers.crafted_packets import enhanced, interface, pcap, section
from tests.helpers.random_traffic import packets, pcap_traffic

FRAMES = [frame for _, frame in packets(9, 200)]
PCAP = pcap_traffic(9, 200)
PCAPNG_HEAD = section() + interface()
PCAPNG = PCAPNG_HEAD + b"".join(enhanced(number, frame) for number, frame in enumerate(FRAMES))
LAYOUTS = {
    "pcap": RecordLayout(CaptureFormat.PCAP, False, 16, interface_table((Interface(1, 262144),))),
    "pcapng": RecordLayout(CaptureFormat.PCAPNG, False, 0, interface_table((Interface(1, 0),))),
}
FILES = {"pcap": (PCAP, pcap_format.HEADER_BYTES), "pcapng": (PCAPNG, len(PCAPNG_HEAD))}
GOES_ON = (ReadOutcome.MORE, ReadOutcome.FULL)


def reader_of(kind: str, most: int = 1 << 30, claimed: int | None = None, **options: int) -> RecordReader:
    data, start = FILES[kind]
    source = MemoryStorage(data, claimed, most)
    return RecordReader(source, start, source.size, **options)


def rows(reader: RecordReader, kind: str) -> Iterator[list[int]]:
    """Return all records, and at last a row with the outcome only."""
    outcome = ReadOutcome.MORE
    while outcome in GOES_ON:
        outcome = reader.advance(LAYOUTS[kind])
        assert len(reader.records) <= reader.room
        yield from reader.records.tolist()
    yield [outcome]


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("most", [1, 50, 1 << 30])
@pytest.mark.parametrize("chunk_bytes", [1, 100, 5000, 1 << 20])
def test_chunks_and_short_reads_change_nothing(kind: str, chunk_bytes: int, most: int) -> None:
    *found, (outcome,) = rows(reader_of(kind, most, chunk_bytes=chunk_bytes), kind)
    assert outcome is ReadOutcome.END
    data, position = FILES[kind]
    assert len(found) == len(FRAMES)
    for row, frame in zip(found, FRAMES, strict=True):
        assert len(row) == RECORD_COLUMNS
        assert row[START] == position
        assert data[row[AT] : row[AT] + row[CAPTURED]] == frame
        position = row[STOP]
    assert position == len(data)


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("head", [0, 1, 54, 300])
def test_the_first_bytes_of_every_packet_are_in_the_buffer(kind: str, head: int) -> None:
    reader = reader_of(kind, head=head, chunk_bytes=100)
    data, _ = FILES[kind]
    outcome, seen = ReadOutcome.MORE, 0
    while outcome in GOES_ON:
        outcome = reader.advance(LAYOUTS[kind])
        for row in reader.records.tolist():
            kept = min(head, row[CAPTURED])
            at = row[AT] - reader.base
            assert reader.buffer[at : at + kept].tobytes() == data[row[AT] : row[AT] + kept]
            seen += 1
    assert seen == len(FRAMES)


def test_a_full_table_is_continued_without_another_read() -> None:
    data = pcap([(1, 0, b"")] * 500)  # records shorter than BYTES_PER_RECORD fill the table first
    reader = RecordReader(MemoryStorage(data), pcap_format.HEADER_BYTES, len(data), chunk_bytes=6400)
    assert reader.room == 6400 // BYTES_PER_RECORD
    outcomes, base = [], pcap_format.HEADER_BYTES
    for _ in range(4):
        outcomes.append(reader.advance(LAYOUTS["pcap"]))
        assert reader.base == base
        assert len(reader.records) == reader.room
    assert outcomes == [ReadOutcome.FULL] * 4
    assert reader.advance(LAYOUTS["pcap"]) is ReadOutcome.MORE


@pytest.mark.parametrize("kind", FILES)
def test_records_that_begin_at_the_limit_are_left(kind: str) -> None:
    *every, _ = rows(reader_of(kind), kind)
    for index in (0, 1, 100):
        for limit, count in ((every[index][START], index), (every[index][START] + 1, index + 1)):
            reader = reader_of(kind, limit=limit)
            *found, (outcome,) = rows(reader, kind)
            assert (len(found), outcome) == (count, ReadOutcome.END)
            assert reader.position == every[count][START]


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("missing", [30, 300, 5000])
def test_a_file_that_became_shorter_is_cut(kind: str, missing: int) -> None:
    data, start = FILES[kind]
    source = MemoryStorage(data[:-missing], claimed=len(data))
    # With a head, the first bytes of each packet are read; the last frame has fewer than a kilobyte.
    reader = RecordReader(source, start, source.size, head=2000, chunk_bytes=4000)
    *found, (outcome,) = rows(reader, kind)
    assert outcome is ReadOutcome.CUT
    assert 0 < len(found) < len(FRAMES)


def test_the_clock_is_that_of_the_last_packet() -> None:
    reader = reader_of("pcap", clock_ns=77)
    assert reader.clock_ns == 77
    *found, _ = rows(reader, "pcap")
    assert reader.clock_ns == found[-1][TIME_NS]


def test_a_reader_looks_at_descriptions_only_when_told() -> None:
    data = PCAPNG_HEAD + enhanced(1, b"x") + interface() + enhanced(2, b"y")
    layout = LAYOUTS["pcapng"]
    for look, outcomes in ((False, ["END"]), (True, ["BLOCK", "END"])):
        reader = RecordReader(MemoryStorage(data), len(PCAPNG_HEAD), len(data))
        names = []
        while not names or names[-1] == "BLOCK":
            names.append(reader.advance(layout, look).name)
            if names[-1] == "BLOCK":
                assert data[reader.position :].startswith(interface())
                reader.skip_to(reader.position + len(interface()))
        assert names == outcomes


def test_the_smallest_buffer_holds_any_record_header() -> None:
    reader = reader_of("pcapng", chunk_bytes=1, head=0)
    assert len(reader.buffer) == SMALLEST_CHUNK
    assert len(reader_of("pcapng", chunk_bytes=1, head=90).buffer) == SMALLEST_CHUNK + 90
