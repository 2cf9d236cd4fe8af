"""Pieces are handed on split by split; the tables do not depend on how they were cut."""

from pathlib import Path

import pyarrow as pa
import pytest
from scapy.layers.inet import TCP
from scapy.utils import rdpcap, wrpcap

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import encode_response
from kdissect.report.model.summary import Summary
from kdissect.tables.build import by_split
from tests.helpers import recorded
from tests.helpers.segment_wire import frame
from tests.helpers.told_capture import Line, Story, batch
from tests.helpers.told_groups import analyzed


def pieces(*rows: tuple[int, int]) -> pa.RecordBatch:
    return pa.record_batch({"split": [row[0] for row in rows], "piece": [row[1] for row in rows]})


ROWS = [(0, 0), (0, 1), (0, -1), (1, 0), (1, -1), (2, -1), (3, 0), (3, 1), (3, 2)]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 9])
def test_each_batch_has_the_pieces_of_one_split(size: int) -> None:
    batches = [pieces(*ROWS[start : start + size]) for start in range(0, len(ROWS), size)]
    assert [batch.to_pylist() for batch in by_split(batches)] == [
        [{"split": 0, "piece": 0}, {"split": 0, "piece": 1}],
        [{"split": 1, "piece": 0}],
        [{"split": 3, "piece": 0}, {"split": 3, "piece": 1}, {"split": 3, "piece": 2}],
    ]


def test_without_pieces_there_is_nothing() -> None:
    assert not list(by_split([pieces((0, -1))]))
    assert not list(by_split([]))


def test_rows_of_an_exchange_come_with_it() -> None:
    for tables in recorded.dissected("refusals.pcapng")[1]:
        if "exchanges" in tables:
            keys = {(row["connection"], row["ordinal"]) for row in tables["exchanges"].to_pylist()}
            assert {(row["connection"], row["ordinal"]) for row in tables["partitions"].to_pylist()} <= keys
    assert recorded.rows("refusals.pcapng", "partitions")


WHOLE = frame(
    encode_response(
        ApiKey.FETCH,
        7,
        {"correlation_id": 1},
        {
            "responses": [
                {
                    "topic": "orders",
                    "partitions": [{"partition_index": 0, "high_watermark": 9, "records": batch(0, 300)}],
                }
            ]
        },
    )
)
LOST = 500


def fetched(story: Story) -> Line:
    """Ask for records; the response is left to the test."""
    line = story.connect("10.1.0.2", client_id="reader")
    asked = {"topic": "orders", "partitions": [{"partition": 0, "fetch_offset": 0}]}
    line.ask(10, ApiKey.FETCH, 7, {"max_wait_ms": 500, "min_bytes": 1, "topics": [asked]})
    return line


def faults(summary: Summary) -> tuple[int, int, list[str]]:
    return (
        summary.totals.faults,
        summary.connections.faults,
        [counter.name for counter in summary.doubts if counter.name in ("faults", "lost_bytes")],
    )


@pytest.mark.parametrize("end", ["reset", "fin", "open"])
def test_a_response_that_was_not_sent_in_full_is_no_fault(end: str, tmp_path: Path) -> None:
    story = Story()
    line = fetched(story)
    line.send(20, False, WHOLE[:400])
    if end != "open":
        line.close(30, reset=end == "reset")
    summary = analyzed(story, tmp_path)
    assert summary.totals.answered == 1
    assert faults(summary) == (0, 0, [])


class Lossy(Story):
    """A story of which the middle of the response was not captured."""

    def write(self, path: Path) -> str:
        text = super().write(path)
        kept = [packet for packet in rdpcap(text) if len(packet[TCP].payload) != LOST]
        wrpcap(text, kept)
        return text


def test_a_response_whose_middle_was_not_captured_is_one(tmp_path: Path) -> None:
    story = Lossy()
    line = fetched(story)
    for at_ms, begin, end in ((20, 0, 400), (21, 400, 400 + LOST), (22, 400 + LOST, len(WHOLE))):
        line.send(at_ms, False, WHOLE[begin:end])
    line.close(30)
    assert faults(analyzed(story, tmp_path)) == (1, 1, ["lost_bytes", "faults"])


def test_an_alert_of_tls_is_no_frame_that_is_too_large(tmp_path: Path) -> None:
    story = Story()
    for number, answer in enumerate(("15030300020250", "15030300020028", "7f030300020250")):
        line = story.connect("10.1.0.2", client_id="plain", at_ms=10 * number)
        request = {"client_software_name": "a", "client_software_version": "1"}
        line.ask(10 * number + 1, ApiKey.API_VERSIONS, 3, request)
        line.send(10 * number + 2, False, bytes.fromhex(answer))
        line.close(10 * number + 3, by_client=False)
    assert analyzed(story, tmp_path).connections.oversized_frames == 1
