"""Frames between a client and a broker, and what a scan of them finds."""

from pathlib import Path

from kdissect.capture.scan import scan_split
from kdissect.capture.segment_index import (
    FLAG_ACK_ONLY,
    FLAGS,
    PIECES,
    Counts,
    unpack_counts,
)
from tests.capture.outcome import descriptors
from tests.helpers.crafted_packets import (
    Packet,
    ethernet,
    pcap,
    survey_bytes,
    tcp,
)

CLIENT, BROKER = "10.0.0.1", "10.0.0.2"  # the client is the lower endpoint: A


def to_broker(**segment: object) -> bytes:
    return ethernet(tcp(CLIENT, BROKER, (40000, 9092), **segment))  # type: ignore[arg-type]


def to_client(**segment: object) -> bytes:
    return ethernet(tcp(BROKER, CLIENT, (9092, 40000), **segment))  # type: ignore[arg-type]


def rows_of(
    folder: Path, *frames: bytes, **options: object
) -> tuple[list[dict[str, object]], list[list[list[int]]], Counts]:
    """Scan frames one microsecond apart; give the rows of pieces, their descriptors, and the counts.

    Descriptors of acknowledgments are left out; `acknowledgments_of` returns them.
    """
    rows, described, counts = _scanned(folder, *frames, **options)
    wanted = [[one for one in piece if not one[FLAGS] & FLAG_ACK_ONLY] for piece in described]
    return rows, wanted, counts


def acknowledgments_of(folder: Path, *frames: bytes) -> list[list[list[int]]]:
    """Return the descriptors of acknowledgments of each piece of frames one microsecond apart."""
    _, described, _ = _scanned(folder, *frames)
    return [[one for one in piece if one[FLAGS] & FLAG_ACK_ONLY] for piece in described]


def _scanned(
    folder: Path, *frames: bytes, **options: object
) -> tuple[list[dict[str, object]], list[list[list[int]]], Counts]:
    packets: list[Packet] = [(1, number, frame) for number, frame in enumerate(frames)]
    (split,) = survey_bytes(folder, pcap(packets)).splits
    batch = scan_split(split, **options)  # type: ignore[arg-type]
    assert batch.schema == PIECES
    batch.validate(full=True)
    rows = batch.to_pylist()
    assert (rows[-1]["bucket"], rows[-1]["piece"], rows[-1]["count"]) == (-1, -1, 0)
    assert [row["piece"] for row in rows[:-1]] == list(range(len(rows) - 1))
    return rows[:-1], descriptors(batch.slice(0, len(rows) - 1)), unpack_counts(rows[-1]["segments"])
