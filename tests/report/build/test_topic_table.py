"""Topics on the capture worked out on paper, their order, and what is left out."""

from kdissect.report.build.topic_table import TopicTables
from kdissect.report.partials import summarise
from kdissect.report.query.connection_facts import read_connection_facts
from kdissect.report.query.topic_names import TopicNames
from tests.helpers.paper_capture import MS, ORDERS_ID, OTHER_ID, US, partition
from tests.helpers.report_rows import FETCH, PRODUCE, exchange_of, many, tables


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


def use(connection, ordinal, api, topic, records, **more):
    return partition(connection, ordinal, api[0], 0, records, topic=topic, **more)


def topic_tables(exchanges, partitions):
    partial = summarise(tables(exchanges, partitions))
    facts = read_connection_facts(partial)
    return TopicTables(partial, facts, TopicNames(partial), {0: "Produce", 1: "Fetch"})


def test_topics_are_ranked_by_bytes_then_mentions_then_name():
    rows = [use(1, 0, PRODUCE, "few", 1), use(1, 0, PRODUCE, "many", 9), use(1, 0, PRODUCE, "b", None)]
    rows += [use(1, 1, PRODUCE, "a", None), use(1, 1, PRODUCE, "c", None), use(1, 2, PRODUCE, "c", None)]
    ranked = topic_tables(many(3, PRODUCE, 1), rows).rank(10, 10)
    assert [row.topic for row in ranked.topics.rows] == ["many", "few", "c", "a", "b"]


def test_topics_and_clients_beyond_the_limits_are_counted():
    calls = [exchange_of(at, 0, PRODUCE, 0) for at in (1, 2)]
    rows = [use(at, 0, PRODUCE, topic, 10 * at) for at in (1, 2) for topic in ("a", "b")]
    ranked = topic_tables(calls, rows).rank(1, 1)
    assert (ranked.topics.omitted, ranked.clients_omitted) == (1, 1)
    (topic,) = ranked.topics.rows
    (produce,) = topic.uses
    assert [(client.name.client_id, client.records) for client in produce.clients] == [("client-2", 20)]
    assert produce.records == 30


def test_a_topic_that_is_read_and_written_has_two_uses_with_their_codecs():
    calls = [exchange_of(1, 0, PRODUCE, 0), exchange_of(2, 0, FETCH, 5)]
    rows = [use(1, 0, PRODUCE, "t", 5, codec="lz4"), use(2, 0, FETCH, "t", 5, codec="zstd", error_code=6)]
    (topic,) = topic_tables(calls, rows).rank(5, 5).topics.rows
    assert [(one.api_name, one.codecs, one.errors) for one in topic.uses] == [
        ("Produce", {"lz4": 50}, 0),
        ("Fetch", {"zstd": 50}, 1),
    ]
