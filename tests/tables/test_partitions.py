"""Request and response rows of one partition become one row."""

import random

import numpy as np
import pytest

from kdissect.tables.partitions import partners
from tests.helpers import recorded

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


def test_a_partition_has_one_row_for_each_exchange() -> None:
    rows = [row for row in recorded.rows("refusals.pcapng", "partitions") if row["partition"] is not None]
    names = ("connection", "ordinal", "topic", "topic_id", "partition")
    assert rows
    assert len({tuple(row[name] for name in names) for row in rows}) == len(rows)
