"""One name for each server."""

from kdissect.report.signals.server_names import ServerNames


def test_a_broker_with_two_listeners_has_one_name_with_the_busier_address():
    brokers = [{"node_id": 1, "host": "10.0.0.1", "port": port} for port in (9092, 9094)]
    names = ServerNames([("10.0.0.1", 9092), ("10.0.0.1", 9094), ("10.0.0.1", 9094)], brokers)
    assert names.name("10.0.0.1", 9092) == names.name("10.0.0.1", 9094) == "broker 1 (10.0.0.1:9094)"
    assert names.of_node(1) == "broker 1 (10.0.0.1:9094)"


def test_a_server_of_unknown_node_has_its_address():
    names = ServerNames([("10.0.0.1", 9092)], [])
    assert names.name("10.0.0.1", 9092) == "10.0.0.1:9092"
    assert names.of_node(7) == "broker 7"
