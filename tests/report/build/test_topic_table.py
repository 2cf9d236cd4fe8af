"""Topics on the capture worked out on paper, and topics of which the name comes late."""

from tests.helpers.paper_capture import MS, ORDERS_ID, OTHER_ID, US


def test_topics_by_name_and_by_id(summary):
    assert [(topic.topic, topic.topic_ids, topic.resolved, topic.partitions) for topic in summary.topics] == [
        ("orders", (ORDERS_ID,), True, 2),
        ("audit", (), True, 1),
        (OTHER_ID, (OTHER_ID,), False, 1),
    ]
    write, read = summary.topics[0].uses
    assert (write.api_name, write.exchanges, write.mentions, write.errors) == ("Produce", 3, 4, 1)
    assert (write.records, write.batches, write.record_bytes, write.codecs) == (161, 4, 1610, {"zstd": 1610})
    assert (write.service.count, write.service.sum_ns, write.idle) == (2, 4 * MS, None)
    assert [(client.name.client_id, client.exchanges, client.records) for client in write.clients] == [
        ("orders-app", 3, 161)
    ]
    assert (read.api_name, read.exchanges, read.records, read.record_bytes) == ("Fetch", 2, 150, 1500)
    assert (read.service.sum_ns, read.idle.sum_ns) == (500 * US, 500 * MS)
