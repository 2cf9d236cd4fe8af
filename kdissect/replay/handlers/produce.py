"""Produce: the batches of each partition, under the target's producer and sequence, by leader and in order.

A retry of the capture is left out if the target took an earlier attempt: it would be there twice. A
producer without idempotence may batch anew when it tries again, so only the records of its batches are left
out. A share group reads from the end of the log at the moment when it begins, so what it read in the capture
is written after its first fetch. With acks = 0 no response comes, and nothing is waited for.
`produce_batches` numbers and sends, `produce_delivery` takes in what came of it.
"""

from collections import defaultdict
from functools import partial

from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.effects import Answer, Coroutine, ask
from kdissect.replay.handlers.produce_batches import (
    BEFORE_IMPLICIT_ADD,
    WORK_BORDERS,
    PartitionBatches,
    make_parts,
    numbered,
    until_free,
    version_of,
)
from kdissect.replay.handlers.produce_delivery import UNKNOWN_OFFSET, captured_offsets, deliver
from kdissect.replay.handlers.producer_ids import producer_identity
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.handlers.sending import (
    EARLIER_BATCH,
    LATE_WRITES,
    until_ended,
    until_led,
    until_order_allows,
    until_transaction_allows,
)
from kdissect.replay.identifiers import RecordPosition, TopicPartition
from kdissect.replay.load.policy import is_internal
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.rewrite.batch_rewrite import (
    CapturedBatch,
    batches_of,
    codec_of,
    without,
)
from kdissect.replay.rewrite.names import Tree
from kdissect.replay.rewrite.versions import FIRST_BATCH_VERSION, chosen_version

ZSTD, ZSTD_VERSION = 4, 7  # the codec, and the Produce version that knows it (KIP-110)
TAKEN, EARLIER_ATTEMPT = "the target took an earlier attempt", "an earlier attempt of a retry"


def produce(context: ReplayContext, item: ReplayItem, body: Tree) -> Coroutine[list[Answer]]:
    """Replay a Produce request."""
    yield from until_transaction_allows(context, item, WORK_BORDERS.__contains__)
    for earlier in context.loaded.after.get(item.request.index, ()):
        yield from until_ended(context, earlier, EARLIER_BATCH)
    written = _partitions(context, body)
    begins = partial(context.order.missing_begin, written, item.request.first_ns)
    yield from until_order_allows(context, begins, LATE_WRITES)
    version = version_of(context, item)
    if version < FIRST_BATCH_VERSION:
        why = f"Produce v{version} of the target is older than record batches"
        raise SkipRequest(Disposition.VERSION, why)
    chosen = yield from _chosen(context, item, body, version)
    if item.transaction is not None and version <= BEFORE_IMPLICIT_ADD:
        yield from _add_partitions(context, item, chosen)
    yield from until_led(context, [partition for partition, _ in chosen])
    yield from until_free(context, item, chosen)
    rounds = numbered(context, item, chosen)
    if len(rounds) > 1:
        context.notes.add(item, f"{len(rounds)} batches for one partition: sent one after another")
    parts = [part for batches in rounds for part in make_parts(context, item, body, version, batches)]
    answers = yield from ask(parts)
    sent = [outgoing for batches in rounds for outgoing in batches]
    captured = captured_offsets(context, item)
    changed = captured.keys() & context.loaded.repeats.get(item.request.index, {}).keys()
    captured |= dict.fromkeys(changed, UNKNOWN_OFFSET)  # it may have fewer records than it had
    return (yield from deliver(context, item, sent, answers, captured))


def _partitions(context: ReplayContext, body: Tree) -> list[TopicPartition]:
    """Return the captured partitions that a request writes."""
    return [
        (context.names.captured_topic(topic) or "", fields["index"])
        for topic in body["topic_data"]
        for fields in topic["partition_data"]
    ]


def chosen_now(context: ReplayContext, item: ReplayItem, body: Tree, version: int) -> list[PartitionBatches]:
    """Return what is sent of a request that is no retry, and so waits for nothing.

    Raise SkipRequest for one that is not sent.
    """
    try:
        next(_chosen(context, item, body, version))
    except StopIteration as stop:
        return list(stop.value)
    raise SkipRequest(Disposition.DEPENDENCY, "it waits for another request")


def _chosen(
    context: ReplayContext, item: ReplayItem, body: Tree, version: int
) -> Coroutine[list[PartitionBatches]]:
    """Return the partitions that are sent, with their batches. Raise SkipRequest if there are none."""
    chosen: list[PartitionBatches] = []
    reasons: list[SkipRequest] = []
    for topic in body["topic_data"]:
        name = context.names.captured_topic(topic)
        for fields in topic["partition_data"]:
            try:
                batches = yield from _chosen_batches(context, item, name, fields, version)
                chosen.append(PartitionBatches((name or "", fields["index"]), batches))
            except SkipRequest as skipped:
                reasons.append(skipped)
                context.notes.add(item, f"without {name}-{fields['index']}: {skipped}")
    if not chosen:
        raise reasons[0] if reasons else SkipRequest(Disposition.UNDECODABLE, "no partitions")
    return chosen


def _chosen_batches(
    context: ReplayContext, item: ReplayItem, name: str | None, fields: Tree, version: int
) -> Coroutine[list[CapturedBatch]]:
    """Return the batches of a partition. Raise SkipRequest for one that is not sent."""
    if name is None:
        raise SkipRequest(Disposition.HEADLESS, "a topic id has no name in the capture")
    partition = (name, fields["index"])
    _check_topic(context, partition)
    for attempt in context.loaded.retries.get(item.request.index, {}).get(partition, ()):
        yield from until_ended(context, attempt, EARLIER_ATTEMPT)
        if context.producers.took(attempt, partition):
            raise SkipRequest(Disposition.RETRY, TAKEN)
    batches = batches_of(fields["records"] or b"")
    if not batches:
        raise SkipRequest(Disposition.UNDECODABLE, "no records")
    if version < ZSTD_VERSION and any(codec_of(batch) == ZSTD for batch in batches):
        raise SkipRequest(Disposition.VERSION, f"Produce v{version} of the target does not know zstd")
    repeats = context.loaded.repeats.get(item.request.index, {}).get(partition, {})
    if not repeats:
        return batches
    return (yield from _without_taken(context, item, partition, batches, repeats))


def _without_taken(
    context: ReplayContext,
    item: ReplayItem,
    partition: TopicPartition,
    batches: list[CapturedBatch],
    repeats: dict[RecordPosition, tuple[int, ...]],
) -> Coroutine[list[CapturedBatch]]:
    """Return the batches of a retry that was batched anew, without records that the target took before."""
    for attempt in sorted({each for attempts in repeats.values() for each in attempts}):
        yield from until_ended(context, attempt, EARLIER_ATTEMPT)
    gone: dict[int, set[int]] = defaultdict(set)
    for (number, record), attempts in repeats.items():
        if any(context.producers.took(attempt, partition) for attempt in attempts):
            gone[number].add(record)
    left = [without(batch, gone[number]) if gone[number] else batch for number, batch in enumerate(batches)]
    kept = [batch for batch in left if batch is not None]
    if not kept:
        raise SkipRequest(Disposition.RETRY, TAKEN)
    if gone:
        context.notes.counts["records left out of regrouped retries"] += sum(map(len, gone.values()))
        context.notes.add(item, "without records: the target took them at an earlier attempt")
    return kept


def _check_topic(context: ReplayContext, partition: TopicPartition) -> None:
    """Raise SkipRequest for a partition that may not be written, or that the target does not have."""
    name, number = partition
    target = context.names.topic(name)
    if is_internal(name) or is_internal(target):
        raise SkipRequest(Disposition.POLICY, f"{name} is an internal topic")
    known = context.cluster.topics.get(target)
    if known is None:
        raise SkipRequest(Disposition.DEPENDENCY, f"topic {target} is not on the target")
    if known.internal:
        raise SkipRequest(Disposition.POLICY, f"{target} is an internal topic")
    if number not in known.leaders:
        raise SkipRequest(Disposition.DEPENDENCY, f"topic {target} has no partition {number} on the target")


def _add_partitions(
    context: ReplayContext, item: ReplayItem, chosen: list[PartitionBatches]
) -> Coroutine[None]:
    """Add partitions to the transaction, if only the captured cluster left that to Produce (KIP-890)."""
    has_partition = context.transactions.has_partition
    missing = [each for each in chosen if not has_partition(item.transaction, each.partition)]
    if not missing:
        return
    batch = missing[0].batches[0]
    identity = yield from producer_identity(context, item, (batch.producer_id, batch.producer_epoch))
    topics: dict[str, list[int]] = {}
    for (topic, number), _ in missing:
        topics.setdefault(context.names.topic(topic), []).append(number)
    context.transactions.add_partitions(item.transaction, [each.partition for each in missing])
    body: Tree = {
        "v3_and_below_transactional_id": context.names.transactional(item.transaction or ""),
        "v3_and_below_producer_id": identity.producer_id,
        "v3_and_below_producer_epoch": identity.producer_epoch,
        "v3_and_below_topics": [{"name": name, "partitions": each} for name, each in topics.items()],
    }
    api = ApiKey.ADD_PARTITIONS_TO_TXN
    version = chosen_version(api, 3, context.cluster.versions.get(api)) or 0
    yield from context.coordinators.ask(api, version, body, context.rewriter.client_id(item))
    context.transactions.note_open(item.transaction, identity)
    context.notes.add(item, "partitions added to the transaction first")
