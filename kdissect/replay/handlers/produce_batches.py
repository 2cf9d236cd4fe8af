"""Batches on their way: each gets a producer, a sequence number, a time, and a place in a request.

In: the batches of a captured request, partition by partition. Out: parts for the leaders. Numbers are given
in the order in which frames go out, so nothing may wait between numbering and sending. A request that holds
several batches for a partition becomes several requests, since a broker takes one (KIP-98).
"""

from collections.abc import Sequence
from typing import NamedTuple

from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.effects import Coroutine, Part
from kdissect.replay.handlers.producer_ids import producer_identity
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.handlers.request_rewriter import NEWEST
from kdissect.replay.handlers.sending import until_numbered
from kdissect.replay.identifiers import Route, TopicPartition
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.rewrite.batch_rewrite import (
    SEQUENCE_LIMIT,
    CapturedBatch,
    refuse_control,
    rewritten,
    rewritten_head,
)
from kdissect.replay.rewrite.names import Tree
from kdissect.replay.rewrite.versions import FIRST_BATCH_VERSION
from kdissect.replay.settings import Timestamps
from kdissect.replay.target.cluster import split
from kdissect.replay.target.producers import ProducerIdentity, SequenceNumbering

BEFORE_IMPLICIT_ADD = 11  # from Produce 12 on a batch adds its partition to the transaction (KIP-890)
TOPIC_IDS = 13  # Produce version from which topics go by id (KIP-516)
WORK_BORDERS = frozenset({ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.END_TXN})
"""The requests of its transaction that a batch waits for."""


class PartitionBatches(NamedTuple):
    """Batches that a request writes to one partition."""

    partition: TopicPartition
    batches: list[CapturedBatch]


class OutgoingBatch(NamedTuple):
    """One batch on its way."""

    partition: TopicPartition
    batch: CapturedBatch
    numbering: SequenceNumbering | None
    sequence: int
    data: bytes  # of a batch that was prepared ahead only the header


def version_of(context: ReplayContext, item: ReplayItem) -> int:
    """Return the version to send.

    Brokers before Kafka 4.0 do not add a partition to a transaction when it is written to (KIP-890).
    """
    implicit = item.transaction is None or context.cluster.second_generation
    return context.rewriter.version(item, most=NEWEST if implicit else BEFORE_IMPLICIT_ADD)


def route_of(context: ReplayContext, item: ReplayItem, partition: TopicPartition) -> Route:
    """Return the route by which a partition's batches go now."""
    leader = context.cluster.leader(context.names.topic(partition[0]), partition[1])
    return item.request.connection, leader


def until_free(
    context: ReplayContext, item: ReplayItem, chosen: Sequence[PartitionBatches]
) -> Coroutine[None]:
    """Wait until all partitions take batches by their routes. Raise SkipRequest if that takes too long."""
    numberings: list[tuple[TopicPartition, SequenceNumbering]] = []
    for partition, batches in chosen:
        for batch in batches:
            if batch.producer_id >= 0:
                key = batch.producer_id, batch.producer_epoch
                identity = yield from producer_identity(context, item, key)
                numberings.append((partition, context.producers.numbering(identity, partition)))
    yield from until_numbered(context, item, numberings, lambda partition: route_of(context, item, partition))


def numbered(
    context: ReplayContext, item: ReplayItem, chosen: Sequence[PartitionBatches]
) -> list[list[OutgoingBatch]]:
    """Return all batches with their numbers: first the first ones of all partitions, then the second ones."""
    rounds: list[list[OutgoingBatch]] = []
    try:
        for partition, batches in chosen:
            for number, batch in enumerate(batches):
                if number >= len(rounds):
                    rounds.append([])
                rounds[number].append(_outgoing(context, item, partition, batch))
    except Exception:
        for outgoing in (outgoing for each in rounds for outgoing in each):
            if outgoing.numbering is not None:
                records = outgoing.batch.records
                context.producers.ended(outgoing.numbering, outgoing.sequence, records, False)
        raise
    return rounds


def numbered_now(
    context: ReplayContext,
    item: ReplayItem,
    version: int,
    batches: Sequence[OutgoingBatch],
    nodes: Sequence[int],
) -> list[OutgoingBatch] | None:
    """Return prepared batches with their producer and number; `nodes` is where each one goes.

    None if something has to be waited for, or if more is needed than counting on: then the handler sends the
    request.
    """
    index, transaction = item.request.index, item.transaction
    if transaction is not None and not in_its_transaction(
        context, index, transaction, version, [each.partition for each in batches]
    ):
        return None
    producers, connection = context.producers, item.request.connection
    found: list[tuple[OutgoingBatch, int, ProducerIdentity, SequenceNumbering]] = []
    for outgoing, node in zip(batches, nodes, strict=True):
        batch = outgoing.batch
        identity = producers.identity((batch.producer_id, batch.producer_epoch))
        if identity is None:
            return None
        numbering = producers.numbering(identity, outgoing.partition)
        if numbering.unsure or not numbering.takes((connection, node), item.request.index):
            return None
        found.append((outgoing, node, identity, numbering))
    ready = []
    for (partition, batch, *_), node, identity, numbering in found:
        sequence = producers.number(numbering, batch.records, (connection, node))
        head = rewritten_head(batch, identity.producer_id, numbering.epoch, sequence % SEQUENCE_LIMIT)
        ready.append(OutgoingBatch(partition, batch, numbering, sequence, head))
    return ready


def in_its_transaction(
    context: ReplayContext, index: int, transaction: str, version: int, partitions: Sequence[TopicPartition]
) -> bool:
    """Return whether a transactional request waits for nothing, and its partitions are in the transaction."""
    transactions = context.transactions
    if next(transactions.earlier_than(index, transaction, WORK_BORDERS.__contains__), None) is not None:
        return False
    return version > BEFORE_IMPLICIT_ADD or all(
        transactions.has_partition(transaction, each) for each in partitions
    )


def _outgoing(
    context: ReplayContext, item: ReplayItem, partition: TopicPartition, batch: CapturedBatch
) -> OutgoingBatch:
    """Return a batch with its producer, number and time.

    Raise SkipRequest for a control batch, before it is numbered.
    """
    refuse_control(batch)
    numbering: SequenceNumbering | None = None
    producer_id, epoch, sequence = batch.producer_id, batch.producer_epoch, batch.base_sequence
    if producer_id >= 0:
        identity = context.producers.known((producer_id, epoch))
        numbering = _numbering(context, item, partition, identity)
        producer_id, epoch = identity.producer_id, numbering.epoch
        sequence = context.producers.number(numbering, batch.records, route_of(context, item, partition))
    wrapped = sequence % SEQUENCE_LIMIT if numbering is not None else sequence  # -1 stays as it is
    data = rewritten(batch, producer_id, epoch, wrapped, _shift_ms(context, item, batch))
    return OutgoingBatch(partition, batch, numbering, sequence, data)


def _shift_ms(context: ReplayContext, item: ReplayItem, batch: CapturedBatch) -> int:
    """Return by how much the timestamps of a batch move."""
    timestamps, clock = context.settings.timestamps, context.clock
    if timestamps is Timestamps.SHIFT:
        return clock.shift_ms
    if timestamps is Timestamps.NOW and batch.max_timestamp >= 0:
        return (item.request.first_ns + clock.shift_ns) // 1_000_000 - batch.max_timestamp
    return 0


def _numbering(
    context: ReplayContext, item: ReplayItem, partition: TopicPartition, identity: ProducerIdentity
) -> SequenceNumbering:
    """Return the numbering of a partition, with a higher epoch if the present one cannot go on."""
    numbering = context.producers.numbering(identity, partition)
    if numbering.unsure and partition in context.loaded.retries.get(item.request.index, {}):
        numbering.unsure -= 1  # sent under the number that it had: the target tells whether it is there
    elif numbering.unsure and not numbering.under_way and item.transaction is None:
        context.producers.start_anew(identity, partition)
        context.notes.counts["epochs raised"] += 1
        context.notes.add(item, "epoch raised: what became of the batch before is not known")
    return numbering


def make_parts(
    context: ReplayContext, item: ReplayItem, body: Tree, version: int, batches: Sequence[OutgoingBatch]
) -> list[Part]:
    """Return the requests in which leaders get a round of batches; `body` is the captured request."""
    topics: dict[str, list[Tree]] = {}
    for outgoing in batches:
        name, partition = outgoing.partition
        fields = {"index": partition, "records": outgoing.data}
        topics.setdefault(context.names.topic(name), []).append(fields)
    named = [{"name": name, "partition_data": partitions} for name, partitions in topics.items()]
    tree: Tree = {"acks": body["acks"], "timeout_ms": body["timeout_ms"], "topic_data": named}
    if item.transaction is not None:
        tree["transactional_id"] = context.names.transactional(item.transaction)
    least = max(item.request.version or 0, FIRST_BATCH_VERSION)
    if least != version and max(least, version) < TOPIC_IDS:
        context.notes.add(item, f"Produce v{item.request.version} as v{version}")
    bodies = split(ApiKey.PRODUCE, tree, context.cluster, context.names)
    context.notes.add_split(item, len(bodies))
    client_id, unacknowledged = context.rewriter.client_id(item), body["acks"] == 0
    wait_ms = max(body["timeout_ms"], 0)
    return [
        Part(
            int(ApiKey.PRODUCE),
            version,
            _by_id(context, each, version),
            node,
            client_id,
            unacknowledged,
            wait_ms,
        )
        for node, each in bodies
    ]


def _by_id(context: ReplayContext, tree: Tree, version: int) -> Tree:
    if version < TOPIC_IDS:
        return tree
    topics = [
        {"topic_id": context.names.id_of(topic["name"]), "partition_data": topic["partition_data"]}
        for topic in tree["topic_data"]
    ]
    return tree | {"topic_data": topics}


def sent_batches(context: ReplayContext, batches: Sequence[OutgoingBatch]) -> list[tuple[str, int]]:
    """Return what is sent where, for the run's files: (partition of the target, number of records)."""
    return [
        (f"{context.names.topic(each.partition[0])}-{each.partition[1]}", each.batch.records)
        for each in batches
    ]
