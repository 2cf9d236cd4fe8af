"""Who writes and reads a topic, as plain data."""

from kdissect.report.build.find_topic_clients import find_topic_clients
from kdissect.report.model.plain import to_plain
from kdissect.report.model.topic_clients import TopicClientRate, TopicClients


def test_a_client_keeps_its_name_and_its_rates(summary):
    (orders,) = find_topic_clients(summary, "orders")
    assert isinstance(orders, TopicClients)
    assert all(isinstance(row, TopicClientRate) for row in (*orders.writers, *orders.readers))
    plain = to_plain(orders)
    assert list(plain) == ["topic", "writers", "readers"]
    (writer,) = plain["writers"]
    assert writer["client"]["client_id"] == "orders-app"
    assert writer.keys() >= {"records_per_s", "bytes_per_s"}
