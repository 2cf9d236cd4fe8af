"""A capture that is still being written has the splits of the finished file, only smaller."""

from pathlib import Path

import pytest

from kdissect.capture.formats.file_types import InputError
from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import CaptureFile
from kdissect.capture.live_capture import LiveCapture

CAPTURES = Path(__file__).parents[2] / "captures"


class Pieces:
    """A stream that returns its bytes in pieces."""

    def __init__(self, data: bytes, size: int) -> None:
        self._data, self._size = data, size

    def read(self, size: int) -> bytes:
        piece, self._data = self._data[: min(size, self._size)], self._data[min(size, self._size) :]
        return piece


@pytest.mark.parametrize("name", ["pause.pcapng", "old-broker.pcap"])
@pytest.mark.parametrize("size", [999, 10_007, 1 << 30])
def test_all_packets_are_in_its_splits(name: str, size: int, tmp_path: Path) -> None:
    path = CAPTURES / name
    complete = index_captures([CaptureFile(str(path), name)])
    live = LiveCapture(Pieces(path.read_bytes(), size), tmp_path / "copy", "pipe")
    splits = list(live)
    assert [split.index for split in splits] == list(range(len(splits)))
    assert sum(split.packets for split in splits) == complete.packets
    assert [split.first_packet for split in splits] == [
        1 + sum(split.packets for split in splits[:number]) for number in range(len(splits))
    ]
    assert (live.earliest_time_ns, live.latest_time_ns) == (
        complete.earliest_time_ns,
        complete.latest_time_ns,
    )
    assert live.warning is None
    assert (tmp_path / "copy").read_bytes() == path.read_bytes()


def test_packets_are_there_before_the_stream_ends(tmp_path: Path) -> None:
    waits: list[int] = []
    data = (CAPTURES / "pause.pcapng").read_bytes()
    live = LiveCapture(Pieces(data, 5000), tmp_path / "copy", "pipe", lambda: waits.append(len(live)))
    live.wait_for_packets()
    assert len(live) >= 1
    assert len(waits) < len(data) // 5000
    assert next(iter(live)).first_packet == 1


def test_an_end_within_a_record_is_a_warning(tmp_path: Path) -> None:
    data = (CAPTURES / "pause.pcapng").read_bytes()[:-30]
    live = LiveCapture(Pieces(data, 5000), tmp_path / "copy", "pipe")
    assert sum(split.packets for split in live) > 100
    assert live.warning is not None
    assert "ends within a record" in live.warning


@pytest.mark.parametrize("data", [b"", b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n"])
def test_what_is_no_capture_is_refused(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        LiveCapture(Pieces(data, 100), tmp_path / "copy", "pipe")
