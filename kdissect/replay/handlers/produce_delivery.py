"""Results of batches, and the batches that are sent again.

The captured cluster took a batch that the target refuses for the moment only (its leader moved, a transaction
is still ending): it is sent again, as any client would. Numbers go on behind what the target took, and the
offset that the target gave stands for the captured one.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from kdissect.protocol.error_codes import LEADER_ERRORS, ErrorCode, error_name
from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.effects import Answer, Coroutine, ask, pause
from kdissect.replay.handlers.produce_batches import (
    OutgoingBatch,
    PartitionBatches,
    make_parts,
    numbered,
    sent_batches,
    until_free,
    version_of,
)
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.identifiers import ProducerKey, TopicPartition
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.rewrite.batch_rewrite import CapturedBatch, batches_of
from kdissect.replay.rewrite.names import Tree
from kdissect.replay.target.coordinators import pause_ns
from kdissect.replay.target.leaders import REFRESH_NS
from kdissect.replay.target.producers import SequenceNumbering

TRANSACTION_ENDING = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS})
"""Errors while the last transaction is ending (KIP-890); older clients get the latter."""

NOT_WRITTEN_YET = LEADER_ERRORS | TRANSACTION_ENDING | {ErrorCode.NETWORK_EXCEPTION}
"""The last one no broker sends: clients name so that they cannot reach one."""

OUT_OF_ORDER_TRIES = 2  # how often a batch is sent again because one in front of it failed
UNKNOWN_OFFSET = (
    -1
)  # the captured cluster took the batch; its offset says nothing, since records were left out


class BatchOutcome(NamedTuple):
    """Result of a batch; no error means that no response tells."""

    error: int | None
    offset: int
    taken: bool | None  # None: nobody knows


def captured_offsets(context: ReplayContext, item: ReplayItem) -> dict[TopicPartition, int]:
    """Return the offset at which the captured cluster wrote each partition that it acknowledged."""
    body = context.captured.response(item.request)
    return {
        (context.names.captured_topic(topic) or "", each["index"]): each["base_offset"]
        for topic in body.get("responses") or ()
        for each in topic["partition_responses"]
        if not each["error_code"] and each["base_offset"] >= 0
    }


def deliver(
    context: ReplayContext,
    item: ReplayItem,
    sent: Sequence[OutgoingBatch],
    answers: list[Answer],
    captured: Mapping[TopicPartition, int],
) -> Coroutine[list[Answer]]:
    """Learn from the answers to batches, send again what was refused for the moment, and return all answers.

    `captured` has the offsets that the captured cluster gave. A batch that it refused too is left to the
    captured client's own retries. The exception is a transaction that is still ending, since everything
    behind waits for it; batches under way behind it are sent again with it.
    """
    context.notes.produced[item.request.index] = tuple(sent_batches(context, sent))
    first = {each.partition: each.batch[1:] for each in reversed(sent)}  # batch by its header
    every, out_of_order, tries = list(answers), 0, 0
    deadline_ns = context.clock.deadline_ns(context.settings.dependency_deadline_s)
    while True:
        outcomes = _outcomes(context, sent, answers)
        passing: list[tuple[OutgoingBatch, int]] = []
        if context.clock.now_ns() < deadline_ns:
            passing = _passing(context, item, sent, outcomes, captured, out_of_order)
        held = {id(each.numbering): each.numbering for each, _ in passing if each.numbering is not None}
        for numbering in held.values():  # before others are told that something ended
            numbering.again.add(item.request.index)
        _give_up(sent, outcomes, [outgoing for outgoing, _ in passing])
        for outgoing, outcome in zip(sent, outcomes, strict=True):
            is_first = outcome.taken and first.get(outgoing.partition) == outgoing.batch[1:]
            offset = captured.get(outgoing.partition) if is_first else None
            _learn(context, item, outgoing, outcome, offset)
            if is_first:
                del first[outgoing.partition]
        yield from context.leaders.refresh_if_moved(answers)
        if not passing:
            return every
        errors = {error for _, error in passing}
        out_of_order += ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER in errors
        wait_ns = pause_ns(tries) if LEADER_ERRORS.isdisjoint(errors) else 2 * REFRESH_NS
        tries += 1
        context.notes.counts["sent again"] += 1
        context.notes.add(item, f"sent again after {error_name(passing[0][1])}")
        refused = [outgoing for outgoing, _ in passing]
        try:
            sent, answers = yield from _send_again(context, item, refused, list(held.values()), wait_ns)
        except SkipRequest:
            return every
        every = [answer for answer in every if not answer.unsent] + answers


def _passing(
    context: ReplayContext,
    item: ReplayItem,
    sent: Sequence[OutgoingBatch],
    outcomes: Sequence[BatchOutcome],
    captured: Collection[TopicPartition],
    out_of_order: int,
) -> list[tuple[OutgoingBatch, int]]:
    """Return the batches to send again, each with its error.

    `out_of_order`: how often that was the error before.
    """
    found = []
    for outgoing, outcome in zip(sent, outcomes, strict=True):
        error = outcome.error
        if error is None:
            continue
        expected = outgoing.partition in captured or (item.transaction and _follows_an_end(outgoing, error))
        if not expected or not _passes(outgoing, error, out_of_order):
            continue
        if context.leaders.writes.pending(outgoing.partition):
            found.append((outgoing, error))
    return found


def _follows_an_end(outgoing: OutgoingBatch, error: int) -> bool:
    """Return whether a batch was refused since a transaction is ending, or behind one that is sent again."""
    if error != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
        return error in TRANSACTION_ENDING
    return outgoing.numbering is not None and not outgoing.numbering.given_up


def _give_up(
    sent: Sequence[OutgoingBatch], outcomes: Sequence[BatchOutcome], again: Sequence[OutgoingBatch]
) -> None:
    """Note where a batch failed that is not sent again: those behind it may not overtake it."""
    for outgoing, outcome in zip(sent, outcomes, strict=True):
        if outgoing.numbering is not None and not outcome.taken:
            outgoing.numbering.given_up |= all(each is not outgoing for each in again)


def _passes(outgoing: OutgoingBatch, error: int, out_of_order: int) -> bool:
    """Return whether an error says no more than that it is too early, or that a batch in front failed."""
    if error != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
        return error in NOT_WRITTEN_YET
    numbering = outgoing.numbering
    if numbering is None:
        return False
    if numbering.broken and not numbering.given_up:  # what failed in front is sent again, however often
        return True
    return out_of_order < OUT_OF_ORDER_TRIES and (numbering.broken or numbering.under_way > 1)


def _send_again(
    context: ReplayContext,
    item: ReplayItem,
    refused: Sequence[OutgoingBatch],
    held: Sequence[SequenceNumbering],
    wait_ns: int,
) -> Coroutine[tuple[list[OutgoingBatch], list[Answer]]]:
    """Send batches again, before everything that waits for their partitions.

    Return the batches and the answers.
    """
    try:
        yield from pause(wait_ns)
        body = context.captured.request(item.request)
        chosen = _as_captured(context, body, {(each.partition, each.batch[1:]) for each in refused})
        yield from until_free(context, item, chosen)
        rounds = numbered(context, item, chosen)
    finally:
        for numbering in held:
            numbering.again.discard(item.request.index)
            if not numbering.under_way:
                numbering.look_again()
    version = version_of(context, item)
    parts = [part for batches in rounds for part in make_parts(context, item, body, version, batches)]
    answers = yield from ask([part._replace(again=True) for part in parts], synthetic=True)
    return [outgoing for batches in rounds for outgoing in batches], answers


def _as_captured(
    context: ReplayContext, body: Tree, headers: Collection[tuple[TopicPartition, tuple[object, ...]]]
) -> list[PartitionBatches]:
    """Return the captured batches with these headers: of prepared batches nothing else was kept."""
    chosen: dict[TopicPartition, list[CapturedBatch]] = {}
    for topic in body["topic_data"]:
        for fields in topic["partition_data"]:
            partition = (context.names.captured_topic(topic) or "", fields["index"])
            for batch in batches_of(fields["records"] or b""):
                if (partition, batch[1:]) in headers:
                    chosen.setdefault(partition, []).append(batch)
    return [PartitionBatches(*each) for each in chosen.items()]


def _outcomes(
    context: ReplayContext, sent: Sequence[OutgoingBatch], answers: Sequence[Answer]
) -> list[BatchOutcome]:
    """Return what the answers say about each batch.

    Batches of one partition are answered in the order in which they were sent.
    """
    responses: dict[TopicPartition, list[tuple[int, int]]] = {}
    for topic in (topic for answer in answers for topic in answer.body.get("responses") or ()):
        name = topic.get("name") or context.names.name_of(topic.get("topic_id", b"")) or ""
        for each in topic["partition_responses"]:
            responses.setdefault((name, each["index"]), []).append((each["error_code"], each["base_offset"]))
    dispositions = {answer.bucket for answer in answers}
    without_response: bool | None = None
    if not dispositions & {Disposition.TIMED_OUT, Disposition.CLOSED}:
        without_response = Disposition.NO_ANSWER_DUE in dispositions
    unanswered = [answer for answer in answers if answer.frame is None]
    unsent = ErrorCode.NETWORK_EXCEPTION if all(answer.unsent for answer in unanswered) else None
    outcomes = []
    for outgoing in sent:
        known = responses.get((context.names.topic(outgoing.partition[0]), outgoing.partition[1]))
        if known:
            error, offset = known.pop(0)
            taken = error in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
            outcomes.append(BatchOutcome(error, offset, taken))
        else:
            outcomes.append(BatchOutcome(unsent if unanswered else None, -1, without_response))
    return outcomes


def _learn(
    context: ReplayContext,
    item: ReplayItem,
    outgoing: OutgoingBatch,
    outcome: BatchOutcome,
    captured: int | None,
) -> None:
    """Note what the target took: numbers go on from there, and a captured offset gets its place."""
    partition, batch = outgoing.partition, outgoing.batch
    if outgoing.numbering is not None:
        context.producers.ended(outgoing.numbering, outgoing.sequence, batch.records, outcome.taken)
    if outcome.error is not None:
        context.producers.note_attempt(item.request.index, partition, bool(outcome.taken))
    if outcome.taken:
        context.leaders.writes.clear(partition)
    if outcome.error != ErrorCode.NONE or outcome.offset < 0:
        return
    known = None if captured == UNKNOWN_OFFSET else captured
    incarnation = context.loaded.reads.incarnation(partition[0], item.request.index)
    context.positions.note_written(partition, known, batch.records, outcome.offset, incarnation)
    note_open(context, item.transaction, (batch.producer_id, batch.producer_epoch))


def learn_taken(
    context: ReplayContext,
    item: ReplayItem,
    sent: Sequence[OutgoingBatch],
    offsets: Sequence[int],
    captured: Mapping[TopicPartition, int],
) -> None:
    """Note the same of a response without errors: `offsets` are those that it gives, batch by batch."""
    index = item.request.index
    for (partition, batch, numbering, sequence, _), offset in zip(sent, offsets, strict=True):
        if numbering is not None:
            context.producers.ended(numbering, sequence, batch.records, True)
        learn_written(context, index, partition, batch.records, captured.get(partition), offset)
        if offset >= 0:
            note_open(context, item.transaction, (batch.producer_id, batch.producer_epoch))


def learn_written(
    context: ReplayContext,
    index: int,
    partition: TopicPartition,
    records: int,
    captured: int | None,
    offset: int,
) -> None:
    """Note that the target wrote records of a request at an offset; below 0: it does not tell where."""
    context.producers.note_attempt(index, partition, True)
    context.leaders.writes.clear(partition)
    if offset >= 0:
        incarnation = context.loaded.reads.incarnation(partition[0], index)
        context.positions.note_written(partition, captured, records, offset, incarnation)


def note_open(context: ReplayContext, transaction: str | None, producer: ProducerKey) -> None:
    """Note that the transaction of a batch of a captured producer is open on the target."""
    if transaction and producer[0] >= 0:
        identity = context.producers.identity(producer)
        if identity is not None:
            context.transactions.note_open(transaction, identity)
