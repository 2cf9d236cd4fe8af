"""Text that is written while Spark starts: which captures are read, and what is in them."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kdissect.cli.banner import FILES_LISTED, index_lines, reading_line, span
from kdissect.text import format_size

SECOND = 10**9


def capture_file(name: str, **more: Any) -> Any:
    facts = {"size": 3_000_000, "format": "pcapng", "packets": 5_097, "truncated_packets": 0, **more}
    return SimpleNamespace(file=SimpleNamespace(name=name), **facts)


def index(*files: Any, captured_bytes: int = 2_500_000) -> Any:
    for file in files:
        file.link_types = frozenset({1})
    return SimpleNamespace(
        files=files, packets=sum(file.packets for file in files), captured_bytes=captured_bytes,
        earliest_time_ns=0, latest_time_ns=90 * SECOND,
    )  # fmt: skip


def test_sizes_are_written_as_in_the_report(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(bytes(2_000_000))
    assert reading_line([str(tmp_path / "a.pcap")]).endswith(f"a.pcap, {format_size(2_000_000)}")
    file, total = index_lines(index(capture_file("a.pcap")))
    assert file == "a.pcap: pcapng, 2.86 MiB, 5,097 packets"
    assert total == "5,097 packets, 2.38 MiB, Ethernet, 1970-01-01 00:00:00 to 00:01:30 UTC (90.0 s)"


def test_nothing_is_written_of_what_is_not_a_file(tmp_path: Path) -> None:
    assert reading_line([str(tmp_path / "gone.pcap"), "-"]) == ""


def test_many_captures_are_counted(tmp_path: Path) -> None:
    files = [capture_file(f"{number}.pcap") for number in range(FILES_LISTED + 2)]
    lines = list(index_lines(index(*files)))
    assert len(lines) == FILES_LISTED + 2
    assert lines[FILES_LISTED] == "… and 2 more captures"


def test_captures_without_packets_and_cut_packets_are_named() -> None:
    empty, cut, _ = index_lines(
        index(capture_file("a", packets=0), capture_file("b", truncated_packets=1_234))
    )
    assert empty == "a: pcapng, no packets"
    assert cut.endswith("5,097 packets, 1,234 of them cut short by the capture")


def test_one_of_anything_is_counted_in_the_singular() -> None:
    one, total = index_lines(index(capture_file("a", packets=1)))
    assert one.endswith(" 1 packet")
    assert total.startswith("1 packet, ")
    *_, more, _ = index_lines(index(*(capture_file(f"{number}") for number in range(FILES_LISTED + 1))))
    assert more == "… and 1 more capture"


def test_the_date_is_written_again_after_midnight() -> None:
    assert (
        span(86_399 * SECOND, 86_401 * SECOND) == ", 1970-01-01 23:59:59 to 1970-01-02 00:00:01 UTC (2.0 s)"
    )
    assert span(None, None) == ""
