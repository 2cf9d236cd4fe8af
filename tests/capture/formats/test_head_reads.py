"""Heads of records are read as by one who reads everything."""

import os
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kdissect.capture.formats import record_reader
from kdissect.capture.formats.head_reads import FIRST_READ, LONGEST_READ, fill_heads, skips_pay
from kdissect.capture.formats.pcap import HEADER_BYTES
from kdissect.capture.formats.record_reader import ReadOutcome, RecordLayout, RecordReader
from kdissect.capture.formats.record_table import AT, CAPTURED
from kdissect.capture.index.splits import CaptureFormat, Interface, interface_table
from kdissect.capture.storage import open_storage
from kdissect.jit.rows import COMPILED

SIZES: dict[str, Callable[[np.random.Generator], int]] = {
    "large": lambda chance: int(chance.integers(30_000, 66_000)),
    "both": lambda chance: int(chance.choice([0, 90, 1500, FIRST_READ, 2 * LONGEST_READ])),
    "medium": lambda chance: int(chance.integers(1000, 5000)),
    "small": lambda chance: int(chance.integers(0, 200)),
}
CHUNK = 100_000


def capture(path: Path, kind: str, order: str = "<", record_header: int = 16) -> bytes:
    chance = np.random.default_rng(7)
    data = bytes(HEADER_BYTES)
    while len(data) < 1_000_000:
        size = SIZES[kind](chance)
        data += struct.pack(f"{order}IIII", 1, 2, size, size) + bytes(record_header - 16) + chance.bytes(size)
    path.write_bytes(data)
    return data


def heads_of(path: Path, layout: RecordLayout, stop: int, head: int) -> list[tuple[list[int], bytes]]:
    """Return the records of a file and the first bytes of each, and at last why reading stopped."""
    found = []
    with open_storage(str(path)) as source:
        reader = RecordReader(source, HEADER_BYTES, stop, head, CHUNK)
        outcome = ReadOutcome.MORE
        while outcome in (ReadOutcome.MORE, ReadOutcome.FULL):
            outcome = reader.advance(layout)
            for row in reader.records.tolist():
                at = row[AT] - reader.base
                found.append((row, reader.buffer[at : at + min(head, row[CAPTURED])].tobytes()))
    return [*found, ([int(outcome)], b"")]


@pytest.mark.parametrize("head", [0, 54, 512])
@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize(("order", "record_header"), [("<", 16), (">", 24)])
@pytest.mark.parametrize("missing", [0, 40, 20_000, 150_000])
def test_records_are_those_of_a_whole_file(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    head: int,
    order: str,
    record_header: int,
    missing: int,
) -> None:
    """Also those of a file that became shorter since it was measured."""
    path = tmp_path / "capture"
    data = capture(path, kind, order, record_header)
    path.write_bytes(data[: len(data) - missing])
    interfaces = interface_table((Interface(1, 262144),))
    layout = RecordLayout(CaptureFormat.PCAP, order == ">", record_header, interfaces)
    filled = []

    def note(*arguments: object) -> int:
        filled.append(fill_heads(*arguments))
        return filled[-1]

    monkeypatch.setattr(record_reader, "fill_heads", note)
    monkeypatch.setattr(record_reader, "skips_pay", lambda *_: False)
    plain = heads_of(path, layout, len(data), head)
    assert not filled
    monkeypatch.setattr(record_reader, "skips_pay", lambda *_: True)
    assert heads_of(path, layout, len(data), head) == plain
    assert bool(filled) == (COMPILED and kind != "small")


def test_what_nobody_looks_at_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "capture"
    data = capture(path, "large")
    buffer = np.full(CHUNK, 255, np.uint8)
    path.write_bytes(data.replace(b"\xff", b"\xfe"))
    with path.open("rb") as file:
        assert fill_heads(file.fileno(), HEADER_BYTES, buffer, CHUNK, 16, 54, False) == CHUNK
    assert (buffer == 255).sum() > CHUNK // 2


def test_skips_pay_in_what_is_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "capture"
    path.write_bytes(bytes(100))
    with path.open("rb") as file:
        assert skips_pay(file.fileno(), 0, 100) in (hasattr(os, "RWF_NOWAIT"), False)  # some systems say no
        assert not skips_pay(file.fileno(), 0, 1000)  # the file is shorter
        monkeypatch.delattr(os, "RWF_NOWAIT", raising=False)
        assert not skips_pay(file.fileno(), 0, 100)
