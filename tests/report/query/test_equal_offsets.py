"""Names learnt from equal offsets: only where they meet often, and no other name does."""

from itertools import chain

import pyarrow as pa
import pytest

from kdissect.report.partials import Partial
from kdissect.report.query.equal_offsets import names_by_commits, names_by_offsets
from kdissect.report.query.topic_names import TopicNames
from kdissect.report.timeline.signal_tables import COMMITTED

SECOND = 10**9


def places(topic, offsets, *, topic_id=None, later_s=0, kind="written"):
    """Return one position each second: the end of partition 0."""
    return [
        {
            "topic": topic,
            "topic_id": topic_id,
            "partition": 0,
            "kind": kind,
            "offset": offset - 1,
            "end_offset": offset,
            "order_ns": -(at + later_s) * SECOND,
        }
        for at, offset in enumerate(offsets)
    ]


def partial(*rows):
    return Partial({COMMITTED.name: pa.Table.from_pylist([*chain(*rows)], schema=COMMITTED.schema)})


BY_ID = places(None, range(100, 400, 10), topic_id="id-1", kind="fetched")


@pytest.mark.parametrize(
    ("by_name", "name"),
    [
        ([places("orders", range(100, 400, 10))], "orders"),
        ([places("orders", range(100, 400, 10)), places("other", range(100, 700, 20))], "orders"),
        ([places("orders", range(100, 400, 10), later_s=60)], None),  # the same offsets at other times
        ([places("orders", range(100, 170, 10))], None),  # too few
        ([places("orders", range(100, 400, 10)), places("same", range(100, 400, 10))], None),
        ([], None),
    ],
)
def test_a_name_is_learnt_where_offsets_meet(by_name, name):
    found = partial(BY_ID, *by_name)
    assert names_by_offsets(found, COMMITTED, ()) == ({"id-1": name} if name else {})
    assert TopicNames(found).name(None, "id-1") == (name or "id-1")


def test_commits_name_topics_too_and_known_ids_stay():
    commits = places("orders", range(100, 400, 10), kind="committed")
    for row in commits:
        row["offset"], row["end_offset"] = row["end_offset"], None
    assert names_by_offsets(partial(BY_ID, commits), COMMITTED, ()) == {"id-1": "orders"}
    assert names_by_offsets(partial(BY_ID, commits), COMMITTED, {"id-1": "known"}) == {}


def test_offsets_of_new_topics_tell_nothing():
    young = places(None, range(10), topic_id="id-1")
    assert names_by_offsets(partial(young, places("orders", range(10))), COMMITTED, ()) == {}


def of_client(rows, client_id="reader"):
    return [row | {"client_id": client_id, "client_host": "10.1.0.1"} for row in rows]


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ([], "orders"),
        (of_client(places("other", [20], kind="committed")), None),  # it commits two topics
        (of_client(places(None, [20], topic_id="id-2", kind="fetched")), None),  # it fetches two
        (of_client(places("orders", [9_000], kind="committed")), None),  # beyond the end
        (
            [
                *of_client(BY_ID, "second"),
                *of_client(places("other", [20], kind="committed"), "second"),
            ],
            None,
        ),
    ],
)
def test_a_member_far_behind_commits_the_topic_that_it_fetches(more, name):
    commits = of_client(places("orders", [10, 20, 30], kind="committed"))
    found = partial(of_client(BY_ID), commits, more)
    assert names_by_commits(found, COMMITTED, {}) == ({"id-1": name} if name else {})
    assert names_by_commits(found, COMMITTED, {"id-9": "orders"}) == {}
