"""Positions as signals: offsets that are asked again, lag of fetches and of commits."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kdissect.protocol.api_keys import ApiKey
from kdissect.report.signals.position_signals import (
    AHEAD,
    NEAR,
    REPEATED,
    REPEATED_NS,
    SECOND,
    Fetches,
    most_repeated,
)
from tests.helpers.told_capture import Story
from tests.helpers.told_groups import analyzed, fetch, produce


def commit(line, at_ms, offset):
    """Commit an offset of partition 0 of orders for the group readers."""
    topics = [{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": offset}]}]
    found = [{"name": "orders", "partitions": [{"partition_index": 0}]}]
    request = {"group_id": "readers", "generation_id_or_member_epoch": 1, "member_id": "m", "topics": topics}
    line.call(at_ms, 1, ApiKey.OFFSET_COMMIT, 2, request, {"topics": found})


def test_commits_that_fall_behind_are_a_lag_though_fetches_run_ahead(tmp_path: Path) -> None:
    story = Story()
    writer = story.connect("10.1.0.9", client_id="writer")
    reader = story.connect("10.1.0.2", client_id="reader")
    for number in range(40):
        produce(writer, 100 + 500 * number, count=50, offset=50 * number)
        fetch(reader, 200 + 500 * number, 50 * number, 50 * (number + 1), records=50)
        commit(reader, 300 + 500 * number, 10 * number)
    (signal,) = (one for one in analyzed(story, tmp_path).signals if one.kind == "lag_grew")
    assert signal.groups == ("readers",)
    assert signal.measures["after"] == 40 * 50 - 39 * 10
    assert "processes topic orders" in signal.sentence
    assert 79 <= signal.measures["per_second"] <= 81


def get_past(rows: list[dict[str, int]], own: dict[str, int]) -> bool:
    later = (
        row["exchanges"]
        for row in rows
        if row["offset"] > own["offset"] and own["first_ns"] < row["first_ns"] < own["last_ns"]
    )
    return sum(later) > AHEAD * own["exchanges"]


@given(st.lists(st.tuples(st.integers(0, 300), *[st.integers(0, 40)] * 2, st.integers(1, 9)), min_size=1))
def test_readers_are_stuck_where_no_later_offsets_were_fetched_meanwhile(
    fetches: list[tuple[int, int, int, int]],
) -> None:
    rows = [
        {"offset": offset, "first_ns": at * SECOND, "last_ns": (at + lasted) * SECOND, "exchanges": count}
        for offset, at, lasted, count in fetches
    ]
    stuck = [
        number
        for number, row in enumerate(rows)
        if row["exchanges"] >= REPEATED
        and row["last_ns"] - row["first_ns"] >= REPEATED_NS
        and not get_past(rows, row)
    ]
    assert Fetches(rows).stuck() == stuck


def test_a_reader_that_goes_on_far_ahead_is_not_stuck() -> None:
    slow = {"offset": 0, "first_ns": 0, "last_ns": 9 * SECOND, "exchanges": 100}
    before = {"first_ns": 0, "last_ns": 0, "exchanges": 1}
    rows = [slow, *({"offset": offset} | before for offset in range(1, 2 * NEAR))]
    assert Fetches(rows).stuck() == [0]
    rows.append({"offset": 3 * NEAR, "first_ns": SECOND, "last_ns": SECOND, "exchanges": 201})
    assert Fetches(rows).stuck() == []


@given(st.permutations([(0, 7, 5), (0, 9, 5), (1, 3, 5), (1, 4, 2), (2, 1, 5)]))
def test_the_order_of_rows_decides_nothing_between_offsets_fetched_equally_often(
    fetches: list[tuple[int, int, int]],
) -> None:
    reads: dict[tuple[str, str, int], list[dict[str, int]]] = {}
    for partition, offset, begun in fetches:
        row = {"partition": partition, "offset": offset, "exchanges": REPEATED, "first_ns": begun * SECOND}
        row["last_ns"] = row["first_ns"] + REPEATED_NS
        reads.setdefault(("reader", "orders", partition), []).append(row)
    ((_, chosen),) = most_repeated(reads).items()
    assert (chosen["partition"], chosen["offset"]) == (1, 4)
