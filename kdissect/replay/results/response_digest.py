"""Comparable parts of a response after a replay: errors, counts and progress by partition.

In: a decoded response, and the names of topic ids. Out: a list of entries, each with `where`
(`topic-partition`, a group, or ""), its `error` code, and what a check may need: `records` and `bytes` that a
fetch brought, the `offset` that a batch got, the partitions that were `assigned`.
"""

from collections.abc import Callable, Iterator
from typing import Any

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import decode_embedded
from kdissect.protocol.records.batches import claimed_records, first_offset, whole_batches
from kdissect.protocol.records.record_decoder import count_records
from kdissect.protocol.schema.registry import APIS
from kdissect.replay.rewrite.names import Tree

Naming = Callable[[bytes], str | None]
FirstWritten = Callable[[str | None, int], int | None]
Entry = dict[str, Any]


def digest(key: int, body: Tree, naming: Naming, first_written: FirstWritten | None = None) -> list[Entry]:
    """Return the digest of a decoded response. `naming` returns the topic of an id.

    With `first_written`, which returns the first offset of a partition that the capture wrote, a fetch tells
    how many `written` records it brought that are not older.
    """
    if key == ApiKey.FETCH:
        return list(_fetch(body, naming, first_written))
    return list(DIGESTS.get(key, _any)(body, naming))


def _any(body: Tree, _naming: Naming) -> Iterator[Entry]:
    """Yield every error, with the partition or name beside it where there is one."""
    yield from _errors(body, "")


def _errors(value: Any, where: str) -> Iterator[Entry]:
    if isinstance(value, list):
        for inner in value:
            yield from _errors(inner, where)
        return
    if not isinstance(value, dict):
        return
    name = value.get("name") or value.get("topic") or value.get("group_id") or value.get("key")
    number = value.get("partition_index", value.get("partition"))
    here = str(name) if name else where
    if number is not None:
        here = f"{here}-{number}"
    for field in ("error_code", "partition_error_code"):
        if field in value:
            yield {"where": here, "error": value[field]}
    for inner in value.values():
        if isinstance(inner, (list, dict)):
            yield from _errors(inner, here)


def _produce(body: Tree, naming: Naming) -> Iterator[Entry]:
    for topic in body["responses"]:
        name = topic.get("name") or naming(topic.get("topic_id", b""))
        for each in topic["partition_responses"]:
            yield {
                "where": f"{name}-{each['index']}",
                "error": each["error_code"],
                "offset": each["base_offset"],
            }


def _fetch(body: Tree, naming: Naming, first_written: FirstWritten | None) -> Iterator[Entry]:
    if body.get("error_code"):
        yield {"where": "", "error": body["error_code"]}
    for topic in body["responses"]:
        name = topic.get("topic") or naming(topic.get("topic_id", b""))
        for each in topic["partitions"]:
            records = each["records"] or b""
            entry: Entry = {
                "where": f"{name}-{each['partition_index']}",
                "error": each["error_code"],
                "records": record_count(records),
                "bytes": len(records),
                "high_watermark": each["high_watermark"],
                "preferred": each.get("preferred_read_replica", -1),
            }
            if first_written is not None:
                first = first_written(name, each["partition_index"])
                entry["written"] = 0 if first is None else record_count(records, first)
            yield entry


def record_count(records: bytes, first: int | None = None) -> int:
    """Return how many records whole batches have; only batches from the offset `first` on if it is given.

    A compressed message of magic 0 or 1 holds others. A target of today responds with batches instead, which
    count their records, so the messages inside are counted too. One that cannot be read counts as one.
    """
    if all(frame.magic == 2 for frame in whole_batches(records)):
        return claimed_records(records, first)
    total = 0
    for frame in whole_batches(records):
        data = records[frame.start : frame.stop]
        if first is None or (first_offset(data) or 0) >= first:
            found = claimed_records(data) if frame.magic == 2 else count_records(data)
            total += found if isinstance(found, int) else 1
    return total


def produced_records(body: Tree, naming: Naming) -> dict[str, int]:
    """Return the number of records that a Produce request has for each partition."""
    return {
        f"{topic.get('name') or naming(topic.get('topic_id', b''))}-{each['index']}": record_count(
            each["records"] or b""
        )
        for topic in body["topic_data"]
        for each in topic["partition_data"]
    }


def _sync(body: Tree, _naming: Naming) -> Iterator[Entry]:
    assigned = decode_embedded("ConsumerProtocolAssignment", body["assignment"], strict=True)
    topics = () if assigned.fault else assigned.value["assigned_partitions"]
    count = sum(len(topic["partitions"]) for topic in topics)
    yield {"where": "", "error": body["error_code"], "assigned": count}


def _consumer_heartbeat(body: Tree, _naming: Naming) -> Iterator[Entry]:
    entry: Entry = {"where": "", "error": body["error_code"]}
    if body.get("assignment") is not None:
        entry["assigned"] = sum(len(each["partitions"]) for each in body["assignment"]["topic_partitions"])
    yield entry


def _share_fetch(body: Tree, naming: Naming) -> Iterator[Entry]:
    """Yield what was acquired: records that others hold are fetched, too, but are not this member's."""
    if body["error_code"]:
        yield {"where": "", "error": body["error_code"]}
    for topic in body["responses"]:
        for each in topic["partitions"]:
            acquired = sum(
                every["last_offset"] - every["first_offset"] + 1 for every in each["acquired_records"]
            )
            where, error = f"{naming(topic['topic_id'])}-{each['partition_index']}", each["error_code"]
            yield {"where": where, "error": error or each["acknowledge_error_code"], "acquired": acquired}


def _metadata(body: Tree, naming: Naming) -> Iterator[Entry]:
    for topic in body["topics"]:
        name = topic.get("name") or naming(topic.get("topic_id", b""))
        yield {"where": str(name), "error": topic["error_code"], "partitions": len(topic["partitions"])}


def _leader_epochs(body: Tree, _naming: Naming) -> Iterator[Entry]:
    for topic in body["topics"]:
        for each in topic["partitions"]:
            where = f"{topic['topic']}-{each['partition']}"
            yield {"where": where, "error": each["error_code"], "known": each["end_offset"] >= 0}


DIGESTS: dict[int, Callable[[Tree, Naming], Iterator[Entry]]] = {
    ApiKey.PRODUCE: _produce,
    ApiKey.METADATA: _metadata,
    ApiKey.SYNC_GROUP: _sync,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _consumer_heartbeat,
    ApiKey.SHARE_GROUP_HEARTBEAT: _consumer_heartbeat,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _leader_epochs,
    ApiKey.SHARE_FETCH: _share_fetch,
}

assert all(key in APIS for key in DIGESTS)
