"""Share groups told as stories: members that fetch records of a queue and say what became of them."""

from collections.abc import Iterable, Sequence

from kdissect.protocol.api_keys import ApiKey
from tests.helpers.told_capture import Line
from tests.helpers.told_groups import TOPIC

TOPIC_ID = bytes([7]) * 16
RELEASED, ACCEPTED, REFUSED = 2, 1, 3
Span = tuple[int, int]
"""First and last offset."""


def name_topic(line: Line, at_ms: float) -> None:
    """Ask for Metadata, which has the name of the topic beside its id."""
    topic = {"name": TOPIC, "topic_id": TOPIC_ID, "partitions": []}
    line.call(at_ms, 1, ApiKey.METADATA, 12, {"topics": None}, {"brokers": [], "topics": [topic]})


def share_fetch(
    line: Line,
    at_ms: float,
    decided: Iterable[tuple[Span, Sequence[int]]] = (),
    handed_out: Iterable[tuple[Span, int]] = (),
    key: ApiKey = ApiKey.SHARE_FETCH,
) -> None:
    """Send what became of records, and get others with their counts of deliveries."""
    batches = [
        {"first_offset": first, "last_offset": last, "acknowledge_types": list(types)}
        for (first, last), types in decided
    ]
    acquired = [
        {"first_offset": first, "last_offset": last, "delivery_count": count}
        for (first, last), count in handed_out
    ]
    asked = {"partition_index": 0, "acknowledgement_batches": batches}
    request = {"group_id": "queue", "member_id": "m", "share_session_epoch": 1, "max_wait_ms": 500}
    request |= {"min_bytes": 1, "max_records": 500, "batch_size": 500}
    request["topics"] = [{"topic_id": TOPIC_ID, "partitions": [asked]}]
    if key == ApiKey.SHARE_ACKNOWLEDGE:
        request = {name: request[name] for name in ("group_id", "member_id", "share_session_epoch", "topics")}
    found = {"partition_index": 0, "acquired_records": acquired, "records": b""}
    if key == ApiKey.SHARE_ACKNOWLEDGE:
        found = {"partition_index": 0}
    response = {"responses": [{"topic_id": TOPIC_ID, "partitions": [found]}]}
    line.call(at_ms, 2, key, 1, request, response)


def takes_records(
    line: Line, times: int = 20, types: Sequence[int] = (ACCEPTED,), deliveries: int = 1, begin_ms: int = 100
) -> None:
    """Add a member that gets two records each half second, and decides on them with the next fetch."""
    name_topic(line, begin_ms)
    for number in range(times):
        own = (2 * number, 2 * number + 1)
        at_ms = begin_ms + 10 + 500 * number
        share_fetch(line, at_ms, handed_out=[(own, min(number + 1, deliveries))])
        share_fetch(line, at_ms + 100, decided=[(own, types)])
