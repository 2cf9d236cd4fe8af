"""Which broker listens at an address."""

from kdissect.report.query.node_ids import node_ids


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
