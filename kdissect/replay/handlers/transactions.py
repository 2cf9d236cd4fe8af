"""The requests of transactions, in order and on the target's producer.

They are InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit and EndTxn.

Both generations (KIP-890) are spoken on both sides. In the second one EndTxn responds with the next epoch,
and producing adds the partition by itself. A capture of the second on a target of the first gets the requests
that are missing; the other way round nothing is missing. Passing errors are asked again, since everything
behind waits for the answer.
"""

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import ErrorCode, error_name
from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.effects import Answer, Coroutine
from kdissect.replay.handlers.offset_commit import (
    note_committed,
    put_member,
    translate_commits,
    until_committable,
)
from kdissect.replay.handlers.prior_member_joins import member_if_any
from kdissect.replay.handlers.producer_ids import producer_identity
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.handlers.request_rewriter import NEWEST
from kdissect.replay.handlers.sending import send_to_coordinator, until_transaction_allows
from kdissect.replay.identifiers import ProducerKey
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.rewrite.names import Tree
from kdissect.replay.rewrite.versions import chosen_version
from kdissect.replay.settings import Groups
from kdissect.replay.target.producers import ProducerIdentity

BORDERS = frozenset({ApiKey.INIT_PRODUCER_ID, ApiKey.END_TXN})
BORDERS_OF_COMMIT = BORDERS | {ApiKey.ADD_OFFSETS_TO_TXN}
LONGEST_TIMEOUT_MS = 900_000  # transaction.max.timeout.ms of a broker that nobody configured
IMPLICIT_OFFSETS = 5  # TxnOffsetCommit from which the group is added by itself
LAST_CLIENT_ADD = 3  # AddPartitionsToTxn above it is for brokers
LAST_OF_FIRST_GENERATION: dict[int, int] = {ApiKey.END_TXN: 4, ApiKey.TXN_OFFSET_COMMIT: 4}


def init_producer_id(context: ReplayContext, item: ReplayItem, body: Tree) -> Coroutine[list[Answer]]:
    """Get a producer id of the target; it stands for the captured one from here on."""
    yield from until_transaction_allows(context, item, lambda _key: True)
    version = context.rewriter.version(item)
    if body.get("producer_id", -1) >= 0:
        known = context.producers.identity((body["producer_id"], body["producer_epoch"]))
        body["producer_id"], body["producer_epoch"] = known or (-1, -1)
    if item.transaction is not None and context.settings.speed < 1:
        longer = int(body["transaction_timeout_ms"] / context.settings.speed)
        most = max(LONGEST_TIMEOUT_MS, body["transaction_timeout_ms"])
        body["transaction_timeout_ms"] = min(longer, most)
    body = context.rewriter.rewrite(item, body, version)
    answer = yield from send_to_coordinator(context, item, version, body)
    _learn_identity(context, item, answer.body, ProducerIdentity(-1, -1))
    return [answer]


def add_partitions(context: ReplayContext, item: ReplayItem, body: Tree) -> Coroutine[list[Answer]]:
    """Add partitions to the transaction."""
    yield from until_transaction_allows(context, item, BORDERS.__contains__)
    version = context.rewriter.version(item, most=LAST_CLIENT_ADD)
    identity = yield from _put_identity(context, item, body, "v3_and_below_")
    partitions = [
        (topic["name"], partition)
        for topic in body["v3_and_below_topics"]
        for partition in topic["partitions"]
    ]
    for name, _ in partitions:
        target = context.names.topic(name)
        if target not in context.cluster.topics:
            raise SkipRequest(Disposition.DEPENDENCY, f"topic {target} is not on the target")
    body = context.rewriter.rewrite(item, body, version)
    answer = yield from send_to_coordinator(context, item, version, body)
    if answer.body:
        context.transactions.add_partitions(item.transaction, partitions)
        context.transactions.note_open(item.transaction, identity)
    return [answer]


def add_offsets(context: ReplayContext, item: ReplayItem, body: Tree) -> Coroutine[list[Answer]]:
    """Add a group's offsets to the transaction."""
    yield from until_transaction_allows(context, item, BORDERS.__contains__)
    version = context.rewriter.version(item)
    identity = yield from _put_identity(context, item, body)
    body = context.rewriter.rewrite(item, body, version)
    answer = yield from send_to_coordinator(context, item, version, body)
    context.transactions.note_open(item.transaction, identity)
    return [answer]


def commit_offsets(context: ReplayContext, item: ReplayItem, body: Tree) -> Coroutine[list[Answer]]:
    """Commit offsets in the transaction: translated, and as the live member of the target."""
    yield from until_transaction_allows(context, item, BORDERS_OF_COMMIT.__contains__)
    version = context.rewriter.version(item, most=_newest(context, ApiKey.TXN_OFFSET_COMMIT))
    yield from until_committable(context, item, body)
    identity = yield from _put_identity(context, item, body)
    offsets, group = translate_commits(context, item, body), body["group_id"]
    if context.settings.groups is Groups.FULL:
        yield from member_if_any(context, group, body.get("member_id", ""))
    put_member(context, body, group)
    body = context.rewriter.rewrite(item, body, version)
    if (item.request.version or 0) >= IMPLICIT_OFFSETS > version:
        yield from _add_group(context, item, group, identity)
    answer = yield from send_to_coordinator(context, item, version, body)
    note_committed(context, item, group, offsets, answer)
    context.transactions.note_open(item.transaction, identity)
    return [answer]


def end(context: ReplayContext, item: ReplayItem, body: Tree) -> Coroutine[list[Answer]]:
    """Commit or abort, when all that belongs to the transaction has ended."""
    yield from until_transaction_allows(context, item, lambda _key: True)
    version = context.rewriter.version(item, most=_newest(context, ApiKey.END_TXN))
    identity = yield from _put_identity(context, item, body)
    if not context.transactions.is_open(item.transaction):
        following = issued_producer(context, item)
        if following is not None:
            context.producers.learn(following, identity)  # no epoch was raised
        raise SkipRequest(Disposition.DEPENDENCY, "nothing of its transaction was sent")
    body = context.rewriter.rewrite(item, body, version)
    answer = yield from send_to_coordinator(context, item, version, body)
    _learn_identity(context, item, answer.body, identity)
    if answer.body and answer.body["error_code"]:
        context.notes.add(item, f"the transaction did not end: {error_name(answer.body['error_code'])}")
    return [answer]


def abort_open(context: ReplayContext) -> Coroutine[None]:
    """Abort what is still open: readers of committed records would wait until the target gives up."""
    for transaction, identity in list(context.transactions.open.items()):
        spoken = context.cluster.versions.get(ApiKey.END_TXN, (0, 0))
        limited = spoken[0], min(spoken[1], _newest(context, ApiKey.END_TXN))
        version = chosen_version(ApiKey.END_TXN, 3, limited) or 0
        body: Tree = {
            "transactional_id": context.names.transactional(transaction),
            "producer_id": identity.producer_id,
            "producer_epoch": identity.producer_epoch,
            "committed": False,
        }
        answer = yield from context.coordinators.ask(ApiKey.END_TXN, version, body, None)
        error = answer.body["error_code"] if answer.body else None
        if error == ErrorCode.NONE:
            context.notes.counts["transactions aborted at the end"] += 1
        if error in (ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE):  # the latter if the target has none open
            context.transactions.close(transaction)


def issued_producer(context: ReplayContext, item: ReplayItem) -> ProducerKey | None:
    """Return the producer id and epoch that the captured response issued."""
    body = context.captured.response(item.request)
    if not body or body.get("error_code") or body.get("producer_id", -1) < 0:
        return None
    return body["producer_id"], body["producer_epoch"]


def _newest(context: ReplayContext, key: ApiKey) -> int:
    """Return the newest version of an API that fits the target's generation of transactions."""
    return NEWEST if context.cluster.second_generation else LAST_OF_FIRST_GENERATION[key]


def _learn_identity(
    context: ReplayContext, item: ReplayItem, response: Tree, before: ProducerIdentity
) -> None:
    """Learn the producer that a response issues, and begin anew with it.

    In the first generation EndTxn issues none.
    """
    if not response or response["error_code"]:
        return
    captured = issued_producer(context, item)
    if captured is not None:
        issued = ProducerIdentity(response.get("producer_id", -1), response.get("producer_epoch", -1))
        context.producers.learn(captured, issued if issued.producer_id >= 0 else before)
    if item.transaction is not None:
        context.transactions.end(item.transaction)


def _put_identity(
    context: ReplayContext, item: ReplayItem, body: Tree, prefix: str = ""
) -> Coroutine[ProducerIdentity]:
    """Put the target's producer into a request of a transaction, and return it.

    `prefix` begins the names of the fields.
    """
    key = (body[f"{prefix}producer_id"], body[f"{prefix}producer_epoch"])
    identity = yield from producer_identity(context, item, key)
    body[f"{prefix}producer_id"], body[f"{prefix}producer_epoch"] = identity
    return identity


def _add_group(
    context: ReplayContext, item: ReplayItem, group: str, identity: ProducerIdentity
) -> Coroutine[None]:
    """Add the group to the transaction, if the captured client left that to TxnOffsetCommit."""
    body: Tree = {
        "transactional_id": context.names.transactional(item.transaction or ""),
        "producer_id": identity.producer_id,
        "producer_epoch": identity.producer_epoch,
        "group_id": context.names.group(group),
    }
    api = ApiKey.ADD_OFFSETS_TO_TXN
    version = chosen_version(api, 3, context.cluster.versions.get(api)) or 0
    yield from context.coordinators.ask(api, version, body, context.rewriter.client_id(item))
    context.notes.add(item, "the group was added to the transaction first")
