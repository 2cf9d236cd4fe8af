"""Knowledge of connections about ends of logs when they fetch, followed through responses and sessions."""

from pathlib import Path

import numpy as np
import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.capture.scan import scan_split
from kdissect.protocol.api_keys import ApiKey
from kdissect.streams.tls.decrypt_stage import new_flow_processor
from kdissect.tables import log_ends
from kdissect.tables.build import by_split
from kdissect.tables.log_ends import UNKNOWN, FetchHistory, LogEnds
from kdissect.tables.message_columns import read_messages
from tests.helpers.told_capture import T0_MS, Line, Story, batch

MS = 1_000_000


def fetch(
    line: Line, at_ms: float, took_ms: float, named: dict[int, int], told: dict[int, tuple[int, bytes]]
):
    """Fetch of partitions from offsets; the response has their high watermarks and records."""
    asked = [{"partition": number, "fetch_offset": offset} for number, offset in named.items()]
    found = [
        {"partition_index": number, "high_watermark": end, "records": records}
        for number, (end, records) in told.items()
    ]
    request = {"max_wait_ms": 500, "min_bytes": 1, "topics": [{"topic": "orders", "partitions": asked}]}
    line.call(
        at_ms, took_ms, ApiKey.FETCH, 7, request, {"responses": [{"topic": "orders", "partitions": found}]}
    )


def followed(path: str) -> FetchHistory:
    """Follow the ends of logs through a capture; the arrays have one value for each exchange."""
    splits = index_captures(open_inputs([path], "").files).splits
    processor = new_flow_processor(splits, np.full(128, 20, np.int64))
    ends = LogEnds()
    found = []
    for pieces in by_split(scan_split(split) for split in splits):
        for one in (*processor.feed(pieces), *processor.close()):
            found += [ends.follow(*columns) for columns in read_messages(one)]
    return FetchHistory(*(np.concatenate(columns) for columns in zip(*found, strict=True)))


def times(values: np.ndarray) -> list[float | None]:
    """Return times in ms of the story."""
    return [None if value == UNKNOWN else round(value / MS - T0_MS, 3) for value in values.tolist()]


@pytest.fixture
def story() -> Story:
    return Story()


def test_a_reader_at_the_end_knows_it_from_the_response_before(story: Story, tmp_path: Path) -> None:
    line = story.connect()
    fetch(line, 10, 500, {0: 42}, {0: (42, b"")})
    fetch(line, 520, 84, {0: 42}, {0: (43, batch(42))})
    fetch(line, 610, 1, {0: 43}, {0: (99, batch(43, 56))})
    fetch(line, 620, 1, {0: 90}, {0: (99, batch(90, 9))})
    history = followed(story.write(tmp_path / "it.pcap"))
    assert times(history.at_end_since) == [None, 510, 604, None]
    assert times(history.previous) == [None, 510, 604, 611]


def test_a_session_confirms_partitions_that_it_does_not_name(story: Story, tmp_path: Path) -> None:
    line = story.connect()
    fetch(line, 10, 500, {0: 42, 1: 7}, {0: (42, b""), 1: (7, b"")})
    fetch(line, 520, 500, {}, {})
    fetch(line, 1030, 80, {}, {1: (8, batch(7))})
    fetch(line, 1120, 80, {0: 42, 1: 8}, {0: (43, batch(42))})
    assert times(followed(story.write(tmp_path / "it.pcap")).at_end_since) == [None, None, 1020, 510]


def test_the_end_for_a_reader_of_committed_records_is_the_last_stable_offset(
    story: Story, tmp_path: Path
) -> None:
    for isolation, stable in ((1, 42), (1, -1), (0, 42)):
        line = story.connect(f"10.1.0.{len(story.lines)}")
        request = {"max_wait_ms": 500, "min_bytes": 1, "isolation_level": isolation, "topics": []}
        for at_ms, records in ((10, b""), (520, batch(42))):
            partition = {"partition_index": 0, "high_watermark": 99, "records": records}
            topics = [{"topic": "orders", "partitions": [partition | {"last_stable_offset": stable}]}]
            line.call(at_ms, 84, ApiKey.FETCH, 7, request, {"responses": topics})
    known = times(followed(story.write(tmp_path / "it.pcap")).at_end_since)
    assert sorted(known, key=str) == [94, None, None, None, None, None]


def test_connections_know_nothing_of_each_other(story: Story, tmp_path: Path) -> None:
    one, other = story.connect(), story.connect("10.1.0.2")
    fetch(one, 10, 500, {0: 42}, {0: (42, b"")})
    fetch(other, 600, 84, {0: 42}, {0: (43, batch(42))})
    assert times(followed(story.write(tmp_path / "it.pcap")).at_end_since) == [None, None]


def test_a_table_that_grows_keeps_what_it_has(story: Story, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(log_ends, "FIRST_ENDS", 4)
    line = story.connect()
    fetch(line, 10, 1, dict.fromkeys(range(40), 0), dict.fromkeys(range(40), (0, b"")))
    for number in range(40):
        fetch(line, 20 + 10 * number, 9, {}, {number: (1, batch(0))})
    known = times(followed(story.write(tmp_path / "it.pcap")).at_end_since)
    assert known == [None, 11, *(29 + 10 * number for number in range(39))]


def test_what_is_remembered_is_bounded(story: Story, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(log_ends, "FIRST_ENDS", 4)
    monkeypatch.setattr(log_ends, "MOST_ENDS", 16)
    line = story.connect()
    fetch(line, 10, 1, dict.fromkeys(range(40), 0), dict.fromkeys(range(40), (0, b"")))
    for number in range(40):
        fetch(line, 20 + 10 * number, 9, {}, {number: (1, batch(0))})
    known = times(followed(story.write(tmp_path / "it.pcap")).at_end_since)
    assert 0 < sum(time is not None for time in known) < 8
