"""Work of Spark's workers, without Spark: descriptors by partition, joined batches, names and counts."""

import numpy as np
import pyarrow as pa

from kdissect.capture.segment_index import PIECES, Counts, pack_counts
from kdissect.spark import tasks
from kdissect.tables.schemas import BROKERS, NAMES


def descriptors(*buckets: int) -> pa.RecordBatch:
    rows = [
        dict.fromkeys(PIECES.names, 0)
        | {"bucket": bucket, "piece": number, "a_host": bytes(16), "b_host": bytes(16), "segments": b""}
        for number, bucket in enumerate(buckets)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=PIECES)


def test_descriptors_go_to_the_partition_of_their_bucket_in_order() -> None:
    of_bucket = np.array([1, 0, 1], dtype=np.int16)
    parts = dict(tasks.split_by_partition(descriptors(0, 1, 2, 1), of_bucket))
    assert {number: rows["piece"].to_pylist() for number, rows in parts.items()} == {0: [1, 3], 1: [0, 2]}


def test_an_id_with_several_names_has_the_first_one() -> None:
    assert tasks.topic_names([("id", "b"), ("id", "a"), ("other", "c")]) == {"id": "a", "other": "c"}


def test_topics_are_filled_in_where_there_is_only_an_id() -> None:
    rows = pa.record_batch({"topic": [None, "kept", None], "topic_id": ["1", "1", "2"]})
    assert tasks.with_topics(rows, {"1": "named"})["topic"].to_pylist() == ["named", "kept", None]


def test_counts_are_summed_and_separated_from_figures() -> None:
    def row(part: str, rows: bytes) -> pa.RecordBatch:
        return pa.record_batch([pa.array([part]), pa.array([rows], pa.binary())], names=["part", "rows"])

    counts = row(tasks.COUNTS_PART, pack_counts(Counts(packets=2, tcp=1)))
    figures = row("figures", b"")
    assert tasks.sum_counts([counts, figures, counts]) == Counts(packets=4, tcp=2)
    assert tasks.partials_only([counts, figures, counts]) == [figures]


def test_filters_learn_topics_and_nodes_from_all_tasks() -> None:
    names = pa.RecordBatch.from_pylist([{"topic_id": "1", "topic": "orders"}], schema=NAMES)
    brokers = pa.RecordBatch.from_pylist(
        [{"node_id": 1, "host": host, "port": 9092} for host in ("a", "b")], schema=BROKERS
    )
    known = tasks.collect_known([("names", names), ("brokers", brokers)])
    assert known.topics == {"1": "orders"}
    assert known.nodes == {1: frozenset({("a", 9092), ("b", 9092)})}
