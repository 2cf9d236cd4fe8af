"""Produce: each partition's batches under the target's producer and sequence, cut along leaders, and in order.

What was a retry in the capture is left out if an earlier attempt was taken by the target: written twice, it would be there twice. A
producer without idempotence may batch anew when it tries again: of its batches only the records are left out. A
request that holds several batches for a partition becomes several requests, since brokers take one (KIP-98). What the captured
cluster took and the target refuses for the moment only (its leader moved, a transaction is still ending) is sent again, as
any client would. With acks = 0 nothing is answered, and nothing is waited for.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import decode_response
from kdissect.protocol.error_codes import LEADER_ERRORS, ErrorCode, error_name
from kdissect.replay.disposition import Disposition
from kdissect.replay.effects import (
    Answer,
    Ask,
    Coroutine,
    Course,
    Part,
    Pause,
    Until,
)
from kdissect.replay.handlers.replay_context import AGAIN_NS, ReplayContext, pause_ns
from kdissect.replay.load.analysis import ReplayItem
from kdissect.replay.load.policy import is_internal
from kdissect.replay.load.retries import Position
from kdissect.replay.rewrite.batch_rewrite import (
    SEQUENCE_LIMIT,
    Batch,
    batches_of,
    codec_of,
    rewritten,
    rewritten_head,
    without,
)
from kdissect.replay.rewrite.roles import SkipRequest, Tree
from kdissect.replay.rewrite.versions import FIRST_BATCH_VERSION, chosen_version
from kdissect.replay.settings import Timestamps
from kdissect.replay.target.cluster import split
from kdissect.replay.target.producers import (
    Identity,
    Numbering,
    Way,
    Where,
)

BEFORE_IMPLICIT_ADD = 11  # from Produce 12 on a batch adds its partition to the transaction (KIP-890)
# What is said while the last transaction is ending (KIP-890); the latter to older clients.
ENDING = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS})
NOT_YET = LEADER_ERRORS | ENDING  # nothing was written
ZSTD, ZSTD_VERSION = 4, 7  # KIP-110
UNKNOWN = -1
BORDERS = frozenset(
    {ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.END_TXN}
)  # what a batch in a transaction waits for
BEFORE, TAKEN = "a batch before this one", "the target took an earlier attempt"


class Sending(NamedTuple):
    """One batch on its way."""

    where: Where
    batch: Batch
    numbering: Numbering | None
    sequence: int
    data: bytes  # of what is ready beforehand the header alone


def produce(stage: ReplayContext, item: ReplayItem, body: Tree) -> Course:
    """Replay a Produce request."""
    yield from stage.in_transaction_order(item, BORDERS.__contains__)
    for earlier in stage.loaded.after.get(item.request.index, ()):
        yield from stage.until_settled(earlier, BEFORE)
    version = version_of(stage, item)
    if version < FIRST_BATCH_VERSION:
        raise SkipRequest(
            Disposition.VERSION, f"Produce v{version} of the target is older than record batches"
        )
    chosen = yield from _wanted(stage, item, body, version)
    if item.transaction is not None and version <= BEFORE_IMPLICIT_ADD:
        yield from _add_partitions(stage, item, chosen)
    yield from stage.until_led([where for where, _ in chosen])
    yield from until_free(stage, item, chosen)
    rounds = numbered(stage, item, chosen)
    if len(rounds) > 1:
        stage.note(item, f"{len(rounds)} batches for one partition: sent one after another")
    parts: list[Part] = []
    for sendings in rounds:
        parts += make_parts(stage, item, body, version, sendings)
    answers: list[Answer] = yield Ask(tuple(parts))
    sent = [sending for sendings in rounds for sending in sendings]
    captured = captured_offsets(stage, item)
    changed = captured.keys() & stage.loaded.repeats.get(item.request.index, {}).keys()
    captured |= dict.fromkeys(changed, UNKNOWN)  # it may have fewer records than it had
    answers = yield from delivered(stage, item, sent, answers, captured)
    return answers


def numbered_now(
    stage: ReplayContext, item: ReplayItem, version: int, sendings: Sequence[Sending], nodes: Sequence[int]
) -> list[Sending] | None:
    """Give ready batches their producer and number; `nodes` is where each one goes.

    None if something has to be waited for, or if more is needed than counting on: then the request takes its course.
    """
    if item.transaction is not None and not _in_its_transaction(stage, item, version, sendings):
        return None
    producers, connection = stage.producers, item.request.connection
    found: list[tuple[Sending, int, Identity, Numbering]] = []
    for sending, node in zip(sendings, nodes, strict=True):
        batch = sending.batch
        identity = producers.identity((batch.producer_id, batch.producer_epoch))
        if identity is None:
            return None
        numbering = producers.numbering(identity, sending.where)
        if numbering.unsure or not numbering.takes((connection, node), item.request.index):
            return None
        found.append((sending, node, identity, numbering))
    ready = []
    for (where, batch, *_), node, identity, numbering in found:
        sequence = producers.number(numbering, batch.records, (connection, node))
        head = rewritten_head(batch, identity.producer_id, numbering.epoch, sequence % SEQUENCE_LIMIT)
        ready.append(Sending(where, batch, numbering, sequence, head))
    return ready


def _in_its_transaction(
    stage: ReplayContext, item: ReplayItem, version: int, sendings: Sequence[Sending]
) -> bool:
    """Tell whether all that a transactional request waits for has ended, and its partitions are in the transaction."""
    if next(stage.earlier_in_transaction(item, BORDERS.__contains__), None) is not None:
        return False
    added = stage.added[stage.names.transactional(item.transaction or "")]
    return version > BEFORE_IMPLICIT_ADD or all(each.where in added for each in sendings)


def version_of(stage: ReplayContext, item: ReplayItem) -> int:
    """Choose the version: before Kafka 4.0 brokers do not take partitions into a transaction by being written to."""
    second = stage.topology.second_generation
    return stage.version(item, most=99 if item.transaction is None or second else BEFORE_IMPLICIT_ADD)


def wanted_now(
    stage: ReplayContext, item: ReplayItem, body: Tree, version: int
) -> list[tuple[Where, list[Batch]]]:
    """Choose the partitions of a request that is no retry, and so waits for nothing."""
    try:
        next(_wanted(stage, item, body, version))
    except StopIteration as stop:
        return list(stop.value)
    raise SkipRequest(Disposition.DEPENDENCY, "it waits for another request")


def until_free(stage: ReplayContext, item: ReplayItem, chosen: list[tuple[Where, list[Batch]]]) -> Coroutine:
    """Wait until all partitions take batches by the way that these would go. Raises SkipRequest when that takes too long."""
    numberings: list[tuple[Where, Numbering]] = []
    for where, batches in chosen:
        for batch in batches:
            if batch.producer_id >= 0:
                identity = yield from stage.identity(item, (batch.producer_id, batch.producer_epoch))
                numberings.append((where, stage.producers.numbering(identity, where)))
    deadline = stage.now_ns() + int(stage.settings.dependency_deadline_s * 1e9)
    while shut := [
        each for where, each in numberings if not each.takes(way_of(stage, item, where), item.request.index)
    ]:
        if stage.now_ns() >= deadline or not (yield Until(shut[0].gate)):
            raise SkipRequest(Disposition.DEPENDENCY, f"{BEFORE} did not end in time")


def numbered(
    stage: ReplayContext, item: ReplayItem, chosen: list[tuple[Where, list[Batch]]]
) -> list[list[Sending]]:
    """Prepare all batches: the first of each partition, then the second of each, and so on.

    Nothing may wait between this and the sending: numbers are given in the order in which frames go out.
    """
    rounds: list[list[Sending]] = []
    try:
        for where, batches in chosen:
            for number, batch in enumerate(batches):
                if number >= len(rounds):
                    rounds.append([])
                rounds[number].append(_prepared(stage, item, where, batch))
    except Exception:
        for sending in (sending for sendings in rounds for sending in sendings):
            if sending.numbering is not None:
                stage.producers.ended(sending.numbering, sending.sequence, sending.batch.records, False)
        raise
    return rounds


def way_of(stage: ReplayContext, item: ReplayItem, where: Where) -> Way:
    """Say by which way a partition's batches go now."""
    return item.request.connection, stage.topology.leader(stage.names.topic(where[0]), where[1])


def _wanted(stage: ReplayContext, item: ReplayItem, body: Tree, version: int) -> Coroutine:
    """Choose the partitions that are sent, with their batches."""
    chosen: list[tuple[Where, list[Batch]]] = []
    why: list[SkipRequest] = []
    for topic in body["topic_data"]:
        name = stage.names.captured_topic(topic)
        for partition in topic["partition_data"]:
            try:
                batches = yield from _wanted_batches(stage, item, name, partition, version)
                chosen.append(((name or "", partition["index"]), batches))
            except SkipRequest as refused:
                why.append(refused)
                stage.note(item, f"without {name}-{partition['index']}: {refused}")
    if not chosen:
        raise why[0] if why else SkipRequest(Disposition.UNDECODABLE, "no partitions")
    return chosen


def _wanted_batches(
    stage: ReplayContext, item: ReplayItem, name: str | None, partition: Tree, version: int
) -> Coroutine:
    """Give the batches of a partition. Raises SkipRequest for one that is not sent."""
    if name is None:
        raise SkipRequest(Disposition.HEADLESS, "a topic id has no name in the capture")
    where = (name, partition["index"])
    _check_topic(stage, where)
    for attempt in stage.loaded.retries.get(item.request.index, {}).get(where, ()):
        yield from stage.until_settled(attempt, "an earlier attempt of a retry")
        if stage.producers.took(attempt, where):
            raise SkipRequest(Disposition.RETRY, TAKEN)
    batches = batches_of(partition["records"] or b"")
    if not batches:
        raise SkipRequest(Disposition.UNDECODABLE, "no records")
    if version < ZSTD_VERSION and any(codec_of(batch) == ZSTD for batch in batches):
        raise SkipRequest(Disposition.VERSION, f"Produce v{version} of the target does not know zstd")
    repeats = stage.loaded.repeats.get(item.request.index, {}).get(where, {})
    if not repeats:
        return batches
    return (yield from _without_taken(stage, item, where, batches, repeats))


def _without_taken(
    stage: ReplayContext,
    item: ReplayItem,
    where: Where,
    batches: list[Batch],
    repeats: dict[Position, tuple[int, ...]],
) -> Coroutine:
    """Leave out the records that the target took at an earlier attempt of a producer that batches anew."""
    for attempt in sorted({each for attempts in repeats.values() for each in attempts}):
        yield from stage.until_settled(attempt, "an earlier attempt of a retry")
    gone: dict[int, set[int]] = defaultdict(set)
    for (number, record), attempts in repeats.items():
        if any(stage.producers.took(attempt, where) for attempt in attempts):
            gone[number].add(record)
    left = [without(batch, gone[number]) if gone[number] else batch for number, batch in enumerate(batches)]
    kept = [batch for batch in left if batch is not None]
    if not kept:
        raise SkipRequest(Disposition.RETRY, TAKEN)
    if gone:
        stage.counts["records left out of regrouped retries"] += sum(map(len, gone.values()))
        stage.note(item, "without records: the target took them at an earlier attempt")
    return kept


def _check_topic(stage: ReplayContext, where: Where) -> None:
    name, partition = where
    target = stage.names.topic(name)
    if is_internal(name) or is_internal(target):
        raise SkipRequest(Disposition.POLICY, f"{name} is an internal topic")
    known = stage.topology.topics.get(target)
    if known is None:
        raise SkipRequest(Disposition.DEPENDENCY, f"topic {target} is not on the target")
    if known.internal:
        raise SkipRequest(Disposition.POLICY, f"{target} is an internal topic")
    if partition not in known.leaders:
        raise SkipRequest(
            Disposition.DEPENDENCY, f"topic {target} has no partition {partition} on the target"
        )


def _prepared(stage: ReplayContext, item: ReplayItem, where: Where, batch: Batch) -> Sending:
    """Give a batch its producer, number and time."""
    shift_ms = 0
    if stage.settings.timestamps is Timestamps.SHIFT:
        shift_ms = stage.shift_ns // 1_000_000
    elif stage.settings.timestamps is Timestamps.NOW and batch.max_timestamp >= 0:
        shift_ms = (item.request.first_ns + stage.shift_ns) // 1_000_000 - batch.max_timestamp
    numbering: Numbering | None = None
    producer_id, epoch, sequence = batch.producer_id, batch.producer_epoch, batch.base_sequence
    if producer_id >= 0:
        producer_id, epoch = stage.producers.known((producer_id, epoch))
    if producer_id >= 0:
        numbering = _numbering(stage, item, where, Identity(producer_id, epoch))
        epoch = numbering.epoch
        sequence = stage.producers.number(numbering, batch.records, way_of(stage, item, where))
    data = rewritten(batch, producer_id, epoch, sequence % SEQUENCE_LIMIT, shift_ms)
    return Sending(where, batch, numbering, sequence, data)


def _numbering(stage: ReplayContext, item: ReplayItem, where: Where, identity: Identity) -> Numbering:
    """Give the numbering of a partition; a new one where the last cannot go on."""
    numbering = stage.producers.numbering(identity, where)
    if numbering.unsure and where in stage.loaded.retries.get(item.request.index, {}):
        numbering.unsure -= 1  # sent under the number that it had: the target tells whether it is there
    elif numbering.unsure and not numbering.under_way and item.transaction is None:
        stage.producers.start_anew(identity, where)
        stage.counts["epochs raised"] += 1
        stage.note(item, "epoch raised: what became of the batch before is not known")
    return numbering


def make_parts(
    stage: ReplayContext, item: ReplayItem, body: Tree, version: int, sendings: list[Sending]
) -> list[Part]:
    """Cut a round of batches into the requests that leaders get."""
    topics: dict[str, list[Tree]] = {}
    for sending in sendings:
        name, partition = sending.where
        topics.setdefault(stage.names.topic(name), []).append({"index": partition, "records": sending.data})
    named = [{"name": name, "partition_data": partitions} for name, partitions in topics.items()]
    tree: Tree = {"acks": body["acks"], "timeout_ms": body["timeout_ms"], "topic_data": named}
    if item.transaction is not None:
        tree["transactional_id"] = stage.names.transactional(item.transaction)
    least = max(item.request.version or 0, FIRST_BATCH_VERSION)
    if least != version and least <= 12 and version <= 12:
        stage.note(item, f"Produce v{item.request.version} as v{version}")
    cuts = split(0, tree, stage.topology, stage.names)
    if len(cuts) > 1:
        stage.counts["split"] += 1
        stage.note(item, f"split for {len(cuts)} leaders")
    return [
        Part(
            0,
            version,
            _by_id(stage, each, version),
            node,
            stage.client_id(item),
            body["acks"] == 0,
            max(body["timeout_ms"], 0),
        )
        for node, each in cuts
    ]


def _by_id(stage: ReplayContext, tree: Tree, version: int) -> Tree:
    if version < 13:
        return tree
    topics = [
        {"topic_id": stage.names.id_of(topic["name"]), "partition_data": topic["partition_data"]}
        for topic in tree["topic_data"]
    ]
    return tree | {"topic_data": topics}


def _add_partitions(
    stage: ReplayContext, item: ReplayItem, chosen: list[tuple[Where, list[Batch]]]
) -> Coroutine:
    """Add partitions to the transaction where the captured client left that to Produce and this target does not."""
    name = stage.names.transactional(item.transaction or "")
    missing = [(where, batches[0]) for where, batches in chosen if where not in stage.added[name]]
    if not missing:
        return
    batch = missing[0][1]
    identity = yield from stage.identity(item, (batch.producer_id, batch.producer_epoch))
    topics: dict[str, list[int]] = {}
    for (topic, partition), _ in missing:
        topics.setdefault(stage.names.topic(topic), []).append(partition)
        stage.added[name].add((topic, partition))
    body: Tree = {
        "v3_and_below_transactional_id": name,
        "v3_and_below_producer_id": identity.producer_id,
        "v3_and_below_producer_epoch": identity.producer_epoch,
        "v3_and_below_topics": [{"name": topic, "partitions": parts} for topic, parts in topics.items()],
    }
    version = (
        chosen_version(
            ApiKey.ADD_PARTITIONS_TO_TXN, 3, stage.topology.versions.get(ApiKey.ADD_PARTITIONS_TO_TXN)
        )
        or 0
    )
    yield from stage.insist(ApiKey.ADD_PARTITIONS_TO_TXN, version, body, stage.client_id(item))
    stage.open_transactions[name] = identity
    stage.note(item, "partitions added to the transaction first")


def delivered(
    stage: ReplayContext,
    item: ReplayItem,
    sent: Sequence[Sending],
    answers: list[Answer],
    captured: dict[Where, int],
) -> Coroutine:
    """Learn what became of batches, and send again what the target only refused for the moment, as a client would.

    `captured` has the offsets that the captured cluster gave: what that refused too, its client tried again by itself. Only for a
    transaction that is still ending nothing is left to that, since everything behind waits.
    """
    stage.produced[item.request.index] = told(stage, sent)
    first = {each.where: each.batch[1:] for each in reversed(sent)}
    every, gaps, tries = list(answers), 0, 0
    deadline = stage.now_ns() + int(stage.settings.dependency_deadline_s * 1e9)
    while True:
        ends = _ends(stage, sent, answers)
        passing = [
            (sending, end.error)
            for sending, end in zip(sent, ends, strict=True)
            if (sending.where in captured or (item.transaction and end.error in ENDING))
            and _passes(sending, end.error, gaps)
        ]
        if stage.now_ns() >= deadline:
            passing = []
        held = {id(each.numbering): each.numbering for each, _ in passing if each.numbering is not None}
        for numbering in held.values():  # before anyone hears that something ended
            numbering.again.add(item.request.index)
        for sending, end in zip(sent, ends, strict=True):
            is_first = end.taken and first.get(sending.where) == sending.batch[1:]
            known = captured.get(sending.where) if is_first else None
            learn(stage, item, sending, end, known)
            if is_first:
                del first[sending.where]
        stage.heed(answers)
        if not passing:
            return every
        errors = {error for _, error in passing}
        gaps += ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER in errors
        wait_ns = pause_ns(tries) if LEADER_ERRORS.isdisjoint(errors) else 2 * AGAIN_NS
        tries += 1
        stage.counts["sent again"] += 1
        stage.note(item, f"sent again after {error_name(passing[0][1] or 0)}")
        try:
            sent, answers = yield from _send_again(
                stage, item, [each for each, _ in passing], [*held.values()], wait_ns
            )
        except SkipRequest:
            return every
        every += answers


def _passes(sending: Sending, error: int | None, gaps: int) -> bool:
    """Tell whether an error says no more than that it is too early, or that something in front failed; `gaps`: how often it did."""
    if error != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
        return error in NOT_YET
    numbering = sending.numbering
    return gaps < 2 and numbering is not None and (numbering.broken or numbering.under_way > 1)


def _send_again(
    stage: ReplayContext, item: ReplayItem, refused: list[Sending], held: list[Numbering], wait_ns: int
) -> Coroutine:
    """Send batches again, in front of everything that waits for their partitions. Gives them and the answers."""
    try:
        yield Pause(wait_ns)
        body = stage.body(item)
        chosen = _as_captured(stage, body, {(each.where, each.batch[1:]) for each in refused})
        yield from until_free(stage, item, chosen)
        rounds = numbered(stage, item, chosen)
    finally:
        for numbering in held:
            numbering.again.discard(item.request.index)
            if not numbering.under_way:
                numbering.look_again()
    version = version_of(stage, item)
    parts = [part for sendings in rounds for part in make_parts(stage, item, body, version, sendings)]
    answers = yield Ask(tuple(part._replace(again=True) for part in parts), synthetic=True)
    return [sending for sendings in rounds for sending in sendings], answers


def _as_captured(
    stage: ReplayContext, body: Tree, heads: set[tuple[Where, tuple[object, ...]]]
) -> list[tuple[Where, list[Batch]]]:
    """Find batches by what their headers say: of those that were ready, nothing else was kept."""
    chosen: dict[Where, list[Batch]] = {}
    for topic in body["topic_data"]:
        for partition in topic["partition_data"]:
            where = (stage.names.captured_topic(topic) or "", partition["index"])
            for batch in batches_of(partition["records"] or b""):
                if (where, batch[1:]) in heads:
                    chosen.setdefault(where, []).append(batch)
    return list(chosen.items())


class End(NamedTuple):
    """What became of a batch; no error means that nothing was answered for it."""

    error: int | None
    offset: int
    taken: bool | None  # None: nobody knows


def _ends(stage: ReplayContext, sent: Sequence[Sending], answers: list[Answer]) -> list[End]:
    """Find for each batch what the answers say; those of one partition are answered in the order of the sending."""
    said: dict[Where, list[tuple[int, int]]] = {}
    for answer in answers:
        for topic in answer.body.get("responses") or ():
            name = topic.get("name") or stage.names.name_of(topic.get("topic_id", b"")) or ""
            for each in topic["partition_responses"]:
                said.setdefault((name, each["index"]), []).append((each["error_code"], each["base_offset"]))
    buckets = {answer.bucket for answer in answers}
    silence = (
        None
        if buckets & {Disposition.TIMED_OUT, Disposition.CLOSED}
        else Disposition.NO_ANSWER_DUE in buckets
    )
    found = []
    for sending in sent:
        known = said.get((stage.names.topic(sending.where[0]), sending.where[1]))
        if known:
            error, offset = known.pop(0)
            found.append(End(error, offset, error in (0, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)))
        else:
            found.append(End(None, -1, silence))
    return found


def learn(stage: ReplayContext, item: ReplayItem, sending: Sending, end: End, captured: int | None) -> None:
    """Note what the target took: numbers go on from there, and a captured offset gets its place."""
    where, batch = sending.where, sending.batch
    if sending.numbering is not None:
        stage.producers.ended(sending.numbering, sending.sequence, batch.records, end.taken)
    if end.error is not None and item.request.index in stage.attempts:
        stage.producers.note(item.request.index, where, bool(end.taken))
    if end.error != 0 or end.offset < 0:
        return
    if captured is not None and captured != UNKNOWN:
        stage.positions.wrote(where, captured, batch.records, end.offset)
    stage.positions.target_bounds(where, -1, end.offset + batch.records)
    _open(stage, item, batch)


def _open(stage: ReplayContext, item: ReplayItem, batch: Batch) -> None:
    """Note that the transaction of a batch is open on the target."""
    if item.transaction and batch.producer_id >= 0:
        identity = stage.producers.identity((batch.producer_id, batch.producer_epoch))
        if identity is not None:
            stage.open_transactions[stage.names.transactional(item.transaction)] = identity


def told(stage: ReplayContext, sent: Sequence[Sending]) -> list[tuple[str, int]]:
    """Say what is sent where, for the run's files."""
    return [(f"{stage.names.topic(each.where[0])}-{each.where[1]}", each.batch.records) for each in sent]


def learn_taken(
    stage: ReplayContext,
    item: ReplayItem,
    sent: Sequence[Sending],
    bases: Sequence[int],
    captured: dict[Where, int],
) -> None:
    """Note the same of an answer without errors: `bases` are the offsets that it gives, batch by batch."""
    producers, positions = stage.producers, stage.positions
    for (where, batch, numbering, sequence, _), base in zip(sent, bases, strict=True):
        if numbering is not None:
            producers.ended(numbering, sequence, batch.records, True)
        if item.request.index in stage.attempts:
            producers.note(item.request.index, where, True)
        known = captured.get(where)
        if known is not None and base >= 0:
            positions.wrote(where, known, batch.records, base)
        if base >= 0:
            positions.target_bounds(where, -1, base + batch.records)
            _open(stage, item, batch)


def captured_offsets(stage: ReplayContext, item: ReplayItem) -> dict[Where, int]:
    """Say at which offsets the captured cluster put what a request wrote."""
    request = item.request
    answer = stage.frame(request.answer) if request.answer_whole else None
    if answer is None:
        return {}
    body = decode_response(answer, request.key, request.version or 0).body or {}
    return {
        (stage.names.captured_topic(topic) or "", each["index"]): each["base_offset"]
        for topic in body.get("responses") or ()
        for each in topic["partition_responses"]
        if not each["error_code"] and each["base_offset"] >= 0
    }
