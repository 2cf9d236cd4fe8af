"""One name for each server."""

from kdissect.report.signals.server_names import ServerNames, follower_of


def test_a_broker_with_two_listeners_has_one_name_with_the_busier_address():
    brokers = [{"node_id": 1, "host": "10.0.0.1", "port": port} for port in (9092, 9094)]
    names = ServerNames([("10.0.0.1", 9092), ("10.0.0.1", 9094), ("10.0.0.1", 9094)], brokers)
    assert names.name("10.0.0.1", 9092) == names.name("10.0.0.1", 9094) == "broker 1 (10.0.0.1:9094)"
    assert names.of_node(1) == "broker 1 (10.0.0.1:9094)"


def test_a_broker_has_the_address_of_its_clients_and_not_that_at_which_it_is_a_controller():
    brokers = [{"node_id": 1, "host": "127.0.0.1", "port": port} for port in (9092, 9093)]
    addresses = {("127.0.0.1", 9092): 3, ("127.0.0.1", 9093): 40}
    names = ServerNames(addresses, brokers, controllers=[("127.0.0.1", 9093)])
    assert names.name("127.0.0.1", 9093) == names.of_node(1) == "broker 1 (127.0.0.1:9092)"


def test_a_node_that_is_only_a_controller_is_named_so():
    brokers = [{"node_id": 4, "host": "10.0.0.4", "port": 9093}]
    names = ServerNames([("10.0.0.4", 9093)], brokers, controllers=[("10.0.0.4", 9093)])
    assert names.name("10.0.0.4", 9093) == names.of_node(4) == "controller 4 (10.0.0.4:9093)"


def test_a_server_of_unknown_node_has_its_address():
    names = ServerNames([("10.0.0.1", 9092)], [])
    assert names.name("10.0.0.1", 9092) == "10.0.0.1:9092"
    assert names.of_node(7) == "broker 7"


def test_the_replication_listener_belongs_to_the_broker_that_all_others_fetch_from():
    brokers = [{"node_id": node, "host": "127.0.0.1", "port": 9090 + node} for node in (1, 2, 3)]
    addresses = [("127.0.0.1", port) for port in (9091, 9092, 9093, 9192)]
    fetchers = [(("127.0.0.1", 9192), 1), (("127.0.0.1", 9192), 3)]
    names = ServerNames(addresses, brokers, fetchers)
    assert names.name("127.0.0.1", 9192) == names.of_node(2) == "broker 2 (127.0.0.1:9092)"
    unsure = ServerNames(addresses, brokers, fetchers[:1])
    assert unsure.name("127.0.0.1", 9192) == "127.0.0.1:9192"


def test_another_port_of_the_one_broker_of_a_host_is_that_broker():
    brokers = [{"node_id": 1, "host": "10.0.0.1", "port": 9092}]
    names = ServerNames([("10.0.0.1", 9092), ("10.0.0.1", 9093), ("10.0.0.2", 9093)], brokers)
    assert names.name("10.0.0.1", 9093) == "broker 1 (10.0.0.1:9092)"
    assert names.name("10.0.0.2", 9093) == "10.0.0.2:9093"


def test_a_port_of_a_broker_at_which_nobody_listens_is_not_the_broker():
    brokers = [{"node_id": 1, "host": "10.0.0.1", "port": 9092}]
    addresses = [("10.0.0.1", 9092), ("10.0.0.1", 9999)]
    names = ServerNames(addresses, brokers, silent=[("10.0.0.1", 9999)])
    assert names.name("10.0.0.1", 9092) == "broker 1 (10.0.0.1:9092)"
    assert names.name("10.0.0.1", 9999) == "10.0.0.1:9999"


def test_replica_fetchers_are_known_by_their_client_id():
    assert follower_of("broker-12-fetcher-0") == 12
    assert follower_of("broker-12") is None
    assert [follower_of(cut) for cut in ("broker-1-fetcher", "broker-10-fetche")] == [1, 10]
    assert follower_of(None) is None
