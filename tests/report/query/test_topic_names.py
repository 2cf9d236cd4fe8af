"""Names of topics by their ids."""

import pyarrow as pa

from kdissect.report.aggregate.partial_tables import NAMES
from kdissect.report.partials import Partial
from kdissect.report.query.topic_names import TopicNames


def names(*rows):
    table = pa.Table.from_pylist(
        [{"topic_id": topic_id, "topic": topic} for topic_id, topic in rows], schema=NAMES.schema
    )
    return TopicNames(Partial({NAMES.name: table}))


def test_the_wire_s_name_counts_before_the_id_s():
    topics = names(("id-1", "orders"))
    assert topics.name("other", "id-1") == "other"
    assert topics.name(None, "id-1") == "orders"
    assert topics.name("", "id-1") == ""


def test_an_id_without_a_name_stands_for_itself():
    topics = names(("id-1", None), (None, "orders"))
    assert topics.name(None, "id-1") == "id-1"
    assert topics.name(None, None) is None
    assert topics.names(["id-1", None]).to_pylist() == ["id-1", None]


def test_of_several_names_the_first_in_the_alphabet_counts():
    assert names(("id", "b"), ("id", "a"), ("id", "c")).name(None, "id") == "a"
