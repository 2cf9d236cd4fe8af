"""Request and response rows of one partition become one row."""

import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kdissect import read
from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.columnar.unread_records import SAMPLE_BYTES
from kdissect.protocol.records.batches import HEADER_BYTES
from kdissect.spark import tasks
from kdissect.tables import partitions as partitions_module
from kdissect.tables.build import dissect_batches
from kdissect.tables.partition_numbers import ALL_OF_FIRST, is_tried
from kdissect.tables.partitions import call_all, compressed, partners, plain_pairs, row_pairs
from kdissect.text import format_uuid
from tests.helpers import recorded
from tests.helpers.told_capture import Story

ARENA = np.frombuffer(b"ordersclicks", np.uint8)
TOPICS = {"orders": (0, 6), "clicks": (6, 6)}


def keys(rows: list[tuple[str, int]]) -> np.ndarray:
    return np.array([(*TOPICS[topic], -1, partition) for topic, partition in rows], np.int64).reshape(-1, 4)


def partners_of(requests: list[tuple[str, int]], responses: list[tuple[str, int]]) -> list[int]:
    zeros = [np.zeros(len(rows), np.int64) for rows in (requests, responses)]
    return partners(ARENA, keys(requests), zeros[0], keys(responses), zeros[1]).tolist()


@pytest.mark.parametrize("seed", range(5))
def test_rows_find_their_partner_in_any_order(seed: int) -> None:
    requests = [(topic, partition) for topic in TOPICS for partition in range(20)]
    responses = requests.copy()
    random.Random(seed).shuffle(responses)
    assert partners_of(requests, responses) == [requests.index(row) for row in responses]


def test_a_request_row_has_one_partner_at_most() -> None:
    assert partners_of([("orders", 0)], [("orders", 0), ("orders", 0), ("clicks", 0)]) == [0, -1, -1]
    assert partners_of([], [("orders", 0)]) == [-1]


def test_rows_of_another_exchange_are_no_partners() -> None:
    rows = keys([("orders", 0), ("orders", 1)])
    assert partners(ARENA, rows, np.array([0, 1]), rows, np.array([1, 1])).tolist() == [-1, 1]


@pytest.mark.parametrize("seed", range(20))
def test_many_rows_have_the_order_of_few(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exchanges may have rows on one side only, or bare topics, and any request row may have a partner."""
    rng = np.random.default_rng(seed)
    request_of, response_of = (np.sort(rng.integers(0, 30, rng.integers(0, 60))) for _ in range(2))
    request_keys = rng.integers(-1, 3, (len(request_of), 4))
    partner = np.full(len(response_of), -1)
    for exchange in np.intersect1d(request_of, response_of):
        theirs, ours = np.flatnonzero(response_of == exchange), np.flatnonzero(request_of == exchange)
        few = rng.integers(0, min(len(theirs), len(ours)) + 1)
        partner[rng.choice(theirs, few, replace=False)] = rng.choice(ours, few, replace=False)
    monkeypatch.setattr(partitions_module, "are_many", lambda _rows: True)
    merged = row_pairs(partner, request_keys, request_of, response_of)
    plain = plain_pairs(partner, request_keys, request_of, response_of)
    assert [rows.tolist() for rows in merged] == [rows.tolist() for rows in plain]


def test_the_loop_for_many_rows_compiles() -> None:
    call_all()


def test_a_row_has_the_name_of_either_side_and_the_id_of_either_side(tmp_path: Path) -> None:
    """A client that deletes a topic by its name sends an id of zeros (KIP-516)."""
    topic_id, line = bytes(range(16)), (story := Story()).connect()
    answer = {"name": "orders", "topic_id": topic_id, "error_code": 0}
    for at_ms, asked in ((10, {"name": None, "topic_id": topic_id}), (20, {"name": "orders"})):
        line.call(at_ms, 1, ApiKey.DELETE_TOPICS, 6, {"topics": [asked]}, {"responses": [answer]})
    rows = partitions(Path(story.write(tmp_path / "it.pcap")))
    assert [(row["topic"], row["topic_id"]) for row in rows] == [("orders", format_uuid(topic_id))] * 2


def test_a_partition_has_its_first_error(tmp_path: Path) -> None:
    codes = [(6, 0), (0, 121), (6, 121), (0, 0)]
    told = [
        {"partition_index": number, "error_code": fetch, "acknowledge_error_code": acknowledge}
        for number, (fetch, acknowledge) in enumerate(codes)
    ]
    (story := Story()).connect().call(
        10, 1, ApiKey.SHARE_FETCH, 1, {}, {"responses": [{"topic_id": bytes(range(16)), "partitions": told}]}
    )
    rows = partitions(Path(story.write(tmp_path / "it.pcap")))
    assert [row["error_code"] for row in rows] == [6, 121, 6, 0]


def test_a_topic_whose_settings_are_hidden_was_created_without_an_error(tmp_path: Path) -> None:
    """A client may create topics and have no right to read their settings (KIP-525)."""
    topic = {"name": "orders", "error_code": 0, "topic_config_error_code": 29, "configs": None}
    (story := Story()).connect().call(
        10, 1, ApiKey.CREATE_TOPICS, 7, {"topics": [{"name": "orders"}]}, {"topics": [topic]}
    )
    path = Path(story.write(tmp_path / "it.pcap"))
    assert [row["error_name"] for row in partitions(path)] == ["NONE"]
    (exchange,) = read(path)
    assert exchange.errors == ()


def test_rows_without_a_name_or_an_id_are_found_by_their_partition() -> None:
    """So a request with very many of them takes no time that grows by the square of their number."""
    bare = np.array([(-1, -1, -1, number) for number in range(200)], np.int64)
    exchange = np.zeros(len(bare), np.int64)
    assert partners(ARENA, bare, exchange, bare[::-1].copy(), exchange).tolist() == list(range(200))[::-1]


def test_a_partition_has_one_row_for_each_exchange() -> None:
    rows = [row for row in recorded.rows("refusals.pcapng", "partitions") if row["partition"] is not None]
    names = ("connection", "ordinal", "topic", "topic_id", "partition")
    assert rows
    assert len({tuple(row[name] for name in names) for row in rows}) == len(rows)


CAPTURES = Path(__file__).parents[2] / "captures"


def test_the_first_of_a_connection_and_then_one_of_many() -> None:
    tried = np.flatnonzero(is_tried(np.arange(1000))).tolist()
    assert tried[:ALL_OF_FIRST] == list(range(ALL_OF_FIRST))
    assert tried[ALL_OF_FIRST:] == list(range(64, 1000, 64))


def test_only_so_much_behind_the_header_is_tried() -> None:
    text = np.frombuffer(b"the same again, " * 4096, np.uint8)
    noise = np.random.default_rng(1).integers(0, 256, len(text), np.uint8)
    arena = np.concatenate([text, noise])
    start = np.array([0, len(text), 10, 10])
    stop = np.array([len(text), len(arena), 10 + HEADER_BYTES, 10 + HEADER_BYTES + 3])
    tried, made = compressed(arena, start, stop)
    assert tried.tolist() == [SAMPLE_BYTES, SAMPLE_BYTES, 0, 3]
    assert made[0] < SAMPLE_BYTES / 50
    assert made[1] > 0.99 * SAMPLE_BYTES
    assert made[2] == 0


def test_samples_are_as_large_as_those_of_another_binding_of_lz4() -> None:
    rng = np.random.default_rng(5)
    letters = rng.integers(97, 97 + rng.integers(2, 26, 400).repeat(500)).astype(np.uint8)
    start = rng.integers(0, len(letters) - 20_000, 300)
    stop = start + HEADER_BYTES + rng.geometric(0.002, 300)
    _, made = compressed(letters, start, stop)
    codec = pa.Codec("lz4_raw")
    samples = [letters[a + HEADER_BYTES : b] for a, b in zip(start, stop, strict=True)]
    assert made.tolist() == [codec.compress(sample).size for sample in samples]


def partitions(capture: Path) -> list[dict[str, Any]]:
    """The rows of partitions of a capture."""
    seen = index_captures(open_inputs([str(capture)], "").files, 1 << 30)
    ordinals = [pa.record_batch({"split": [split.index]}) for split in seen.splits]
    pieces = list(tasks.scan_step(ordinals, seen.splits, ()))
    batches = (batch for batch in dissect_batches(pieces, seen.splits) if "partitions" in batch)
    return [row for batch in batches for row in batch["partitions"].to_pylist()]


def test_in_a_recorded_capture_only_plain_writes_are_tried() -> None:
    rows = [row for row in partitions(CAPTURES / "steady.pcapng") if row["sampled_bytes"] is not None]
    assert rows
    for row in rows:
        assert (row["api_key"], row["codec"], row["topic"]) == (0, "none", "clicks")
        assert 0 < row["sampled_lz4_bytes"] < row["sampled_bytes"] <= row["record_bytes"] - HEADER_BYTES
        assert is_tried(np.array([row["ordinal"]]))[0]


@pytest.mark.skipif(not shutil.which("editcap"), reason="editcap (Wireshark) is not installed")
def test_of_a_frame_that_was_cut_off_what_is_there_is_tried(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcapng"
    subprocess.run(["editcap", "-s", "260", str(CAPTURES / "refusals.pcapng"), str(cut)], check=True)
    tried = [row for row in partitions(cut) if row["sampled_bytes"] is not None]
    assert tried
    assert max(row["sampled_bytes"] for row in tried) < 260 < max(row["record_bytes"] for row in tried)
