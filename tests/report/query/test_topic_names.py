"""Names of topics by their ids."""

import pyarrow as pa

from kdissect.report.aggregate.partial_tables import NAMES
from kdissect.report.partials import Partial
from kdissect.report.query.topic_names import TopicNames, node_ids


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


def test_a_node_is_known_by_its_address_or_by_a_port_that_only_it_has():
    brokers = [
        {"node_id": 1, "host": "10.0.0.1", "port": 9092},
        {"node_id": 2, "host": "kafka-2", "port": 9093},
        {"node_id": 3, "host": "kafka-3", "port": 9092},
    ]
    nodes = node_ids([("10.0.0.1", 9092), ("10.0.0.2", 9093), ("10.0.0.9", 9092)], brokers)
    assert nodes == {("10.0.0.1", 9092): 1, ("10.0.0.2", 9093): 2}


def test_names_of_the_same_host_are_one_address():
    assert node_ids([("127.0.0.1", 9092)], [{"node_id": 4, "host": "localhost", "port": 9092}]) == {
        ("127.0.0.1", 9092): 4
    }


def test_names_that_two_ids_have_had():
    assert names(("old", "orders"), ("new", "orders"), ("id", "clicks")).with_several_ids() == {"orders"}
