"""Text of a packet comment about a message: which request, to whom, and how it ended.

In come a decoded exchange and the names of topic ids, out goes one line for the packet that begins the
request, and one for the packet that begins the response. Names come from the capture, so they are escaped.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from kdissect.exchanges.decoded import DecodedExchange
from kdissect.exchanges.describe import RAW_SASL_NAME
from kdissect.exchanges.field_search import Mention
from kdissect.exchanges.filter import GROUP_ROLES, TOPIC_ROLES, error_codes, group_in, topic_in
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import error_name
from kdissect.protocol.kafka07.message_codec import kafka07_error_name
from kdissect.text import escape, format_duration, truncate

PARTITION = "partition"
NAMED = TOPIC_ROLES | GROUP_ROLES | {PARTITION}  # roles of what a comment names
NAMES_SHOWN = 3
NAME_COLUMNS = 120  # of one name; topics have up to 249 characters
ONE_UNIT = re.compile(r"([\d.]+)(ns|µs|ms|s)")
PREPOSITIONS: Mapping[int, str] = {ApiKey.PRODUCE: "to", ApiKey.FETCH: "from"}
OUTCOMES = {
    "unanswered": "not answered",
    "no_response_expected": "no response expected",
    "orphan_response": "request not captured",
    "sasl_token": "not answered",
}


def message_comments(decoded: DecodedExchange, topic_names: Mapping[bytes, str]) -> tuple[str, str]:
    """Return the comments for request and response, such as these.

    Produce v13 #41 to orders-3, answered after 812 ms: NOT_LEADER_OR_FOLLOWER
    Response to Produce v13 #41 to orders-3, after 812 ms: NOT_LEADER_OR_FOLLOWER
    """
    exchange = decoded.exchange
    subject = _subject(decoded, topic_names)
    errors = _errors(decoded)
    if exchange.response is None:
        return f"{subject}, {OUTCOMES.get(exchange.status, exchange.status)}", ""
    if exchange.request is None:
        return "", f"Response to {subject}, {OUTCOMES['orphan_response']}{errors}"
    latency = exchange.latency_ns
    after = "" if latency is None else f" after {_duration(latency)}"
    comma = "," if after else ""
    return f"{subject}, answered{after}{errors}", f"Response to {subject}{comma}{after}{errors}"


def _subject(decoded: DecodedExchange, topic_names: Mapping[bytes, str]) -> str:
    exchange = decoded.exchange
    if exchange.is_token:
        return RAW_SASL_NAME
    name = exchange.api_name
    if exchange.api_key is None or name is None:
        return f"a request #{exchange.correlation_id}"
    parts = [name]
    if exchange.api_version is not None:
        parts.append(f"v{exchange.api_version}")
    if exchange.correlation_id is not None:
        parts.append(f"#{exchange.correlation_id}")
    mentions = list(decoded.mentions(NAMED))
    topics = _first_names(_topic_partitions(mentions, topic_names))
    if topics:
        parts.append(f"{PREPOSITIONS.get(exchange.api_key, 'for')} {topics}")
    found = (group_in(mention) for mention in mentions if mention[0] in GROUP_ROLES)
    groups = _first_names(name for name in found if name is not None)
    if groups:
        parts.append(f"of group {groups}")
    return " ".join(parts)


def _topic_partitions(mentions: Iterable[Mention], topic_names: Mapping[bytes, str]) -> Iterator[str]:
    """Yield each topic with each of its partitions, as orders-3, and topics without partitions alone."""
    topic, alone = None, False
    for mention in mentions:
        role, value, _ = mention
        if role in TOPIC_ROLES:
            if topic is not None and alone:
                yield topic
            topic, alone = topic_in(mention, topic_names), True
        elif role == PARTITION and topic is not None:
            alone = False
            yield f"{topic}-{value}"
    if topic is not None and alone:
        yield topic


def _errors(decoded: DecodedExchange) -> str:
    name_of = kafka07_error_name if decoded.exchange.is_kafka07 else error_name
    names = [name_of(code) for code in dict.fromkeys(error_codes(decoded)) if code]
    return f": {', '.join(names)}" if names else ""


def _first_names(names: Iterator[str]) -> str:
    """Return the first few names, each once and escaped, and how many more there are."""
    distinct = list(dict.fromkeys(names))
    shown = ", ".join(truncate(escape(name), NAME_COLUMNS, "…") for name in distinct[:NAMES_SHOWN])
    more = len(distinct) - NAMES_SHOWN
    return f"{shown} and {more:,} more" if more > 0 else shown


def _duration(ns: int) -> str:
    """Return a duration as text with a space before its unit, as in sentences."""
    return ONE_UNIT.sub(r"\1 \2", format_duration(ns))
