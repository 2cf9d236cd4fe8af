"""Who writes a topic and who reads it: the answer of `kdissect who`, from the topics of a `Summary`.

A rate is over the time in which the capture has exchanges. A client belongs to a group if a commit or a query
of offsets of the topic by the same client id, software and host names the group, since a Fetch does not. Two
processes that share all three look like one.
"""

from collections.abc import Collection

from kdissect.protocol.api_keys import FETCHES, ApiKey
from kdissect.report.model.summary import Summary, TopicClient, TopicRow
from kdissect.report.model.topic_clients import TopicClientRate, TopicClients
from kdissect.tables.filters import matches

WRITES = frozenset({ApiKey.PRODUCE})
NS_PER_S = 10**9


def find_topic_clients(summary: Summary, pattern: str) -> tuple[TopicClients, ...]:
    """Return the topics whose name, or one of whose ids, matches a pattern with the wildcards * and ?."""
    totals = summary.totals
    seconds = ((totals.last_time_ns or 0) - (totals.first_time_ns or 0)) / NS_PER_S

    def clients(topic: TopicRow, api_keys: Collection[int]) -> tuple[TopicClientRate, ...]:
        uses = (use for use in topic.uses if use.api_key in api_keys)
        return tuple(_rate(client, seconds) for use in uses for client in use.clients)

    return tuple(
        TopicClients(topic.topic, clients(topic, WRITES), clients(topic, FETCHES))
        for topic in summary.topics
        if any(matches(name, (pattern,)) for name in (topic.topic, *topic.topic_ids))
    )


def _rate(client: TopicClient, seconds: float) -> TopicClientRate:
    if seconds <= 0:
        return TopicClientRate(client, None, None)
    return TopicClientRate(client, client.records / seconds, client.record_bytes / seconds)
