"""Transactions: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn, in order, on the mapped producer.

Both generations (KIP-890) are spoken on both sides. In the second one EndTxn answers with the next epoch, and producing adds the
partition by itself; a capture of the second on a target of the first gets the requests that are missing, the other way round
nothing is missing. Passing errors are asked again, since everything behind waits for it.
"""

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import error_name
from kdissect.replay.disposition import Disposition
from kdissect.replay.effects import (
    Answer,
    Coroutine,
    Course,
)
from kdissect.replay.handlers.prior_member_joins import member_if_any
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.load.analysis import ReplayItem
from kdissect.replay.rewrite.roles import SkipRequest, Tree
from kdissect.replay.rewrite.versions import chosen_version
from kdissect.replay.settings import Groups
from kdissect.replay.target.producers import Identity, Key

BORDERS = frozenset({ApiKey.INIT_PRODUCER_ID, ApiKey.END_TXN})
LONGEST_TIMEOUT_MS = 900_000  # transaction.max.timeout.ms of a broker that nobody configured
IMPLICIT_OFFSETS = 5  # TxnOffsetCommit from which the group is added by itself
LAST_OF_FIRST_GENERATION = {ApiKey.END_TXN: 4, ApiKey.TXN_OFFSET_COMMIT: 4}


def init_producer_id(stage: ReplayContext, item: ReplayItem, body: Tree) -> Course:
    """Get a producer id of the target; it stands for the captured one from here on."""
    yield from stage.in_transaction_order(item, lambda _key: True)
    version = stage.version(item)
    if body.get("producer_id", -1) >= 0:
        known = stage.producers.identity((body["producer_id"], body["producer_epoch"]))
        body["producer_id"], body["producer_epoch"] = known or (-1, -1)
    if item.transaction is not None and stage.settings.speed < 1:
        longer = int(body["transaction_timeout_ms"] / stage.settings.speed)
        body["transaction_timeout_ms"] = min(longer, max(LONGEST_TIMEOUT_MS, body["transaction_timeout_ms"]))
    body = stage.carried(item, body, version)
    answer: Answer = yield from stage.insist(
        ApiKey.INIT_PRODUCER_ID, version, body, stage.client_id(item), item
    )
    _learn_identity(stage, item, answer.body, Identity(-1, -1))
    return [answer]


def add_partitions(stage: ReplayContext, item: ReplayItem, body: Tree) -> Course:
    """Add partitions to the transaction."""
    yield from stage.in_transaction_order(item, lambda key: key in BORDERS)
    version = stage.version(item, most=3)
    identity = yield from _put_identity(stage, item, body, "v3_and_below_")
    topics = [
        (topic["name"], partition)
        for topic in body["v3_and_below_topics"]
        for partition in topic["partitions"]
    ]
    for name, _ in topics:
        if stage.names.topic(name) not in stage.topology.topics:
            raise SkipRequest(Disposition.DEPENDENCY, f"topic {stage.names.topic(name)} is not on the target")
    body = stage.carried(item, body, version)
    answer: Answer = yield from stage.insist(
        ApiKey.ADD_PARTITIONS_TO_TXN, version, body, stage.client_id(item), item
    )
    name = stage.names.transactional(item.transaction or "")
    if answer.body:
        stage.added[name].update(topics)
        stage.open_transactions[name] = identity
    return [answer]


def add_offsets(stage: ReplayContext, item: ReplayItem, body: Tree) -> Course:
    """Add a group's offsets to the transaction."""
    yield from stage.in_transaction_order(item, lambda key: key in BORDERS)
    version = stage.version(item)
    identity = yield from _put_identity(stage, item, body)
    body = stage.carried(item, body, version)
    answer: Answer = yield from stage.insist(
        ApiKey.ADD_OFFSETS_TO_TXN, version, body, stage.client_id(item), item
    )
    stage.open_transactions[stage.names.transactional(item.transaction or "")] = identity
    return [answer]


def commit_offsets(stage: ReplayContext, item: ReplayItem, body: Tree) -> Course:
    """Commit offsets in the transaction: translated, and as the member that is alive on the target."""
    yield from stage.in_transaction_order(
        item, lambda key: key in (ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN)
    )
    second = stage.topology.second_generation
    version = stage.version(item, most=99 if second else LAST_OF_FIRST_GENERATION[ApiKey.TXN_OFFSET_COMMIT])
    identity = yield from _put_identity(stage, item, body)
    stage.translate_commits(item, body)
    if stage.settings.groups is Groups.FULL:
        yield from member_if_any(stage, body["group_id"], body.get("member_id", ""))
    stage.put_member(body, body["group_id"], "generation_id")
    group = body["group_id"]
    body = stage.carried(item, body, version)
    name = stage.names.transactional(item.transaction or "")
    if (item.request.version or 0) >= IMPLICIT_OFFSETS > version:
        yield from _add_group(stage, item, name, group, identity)
    answer: Answer = yield from stage.insist(
        ApiKey.TXN_OFFSET_COMMIT, version, body, stage.client_id(item), item
    )
    stage.open_transactions[name] = identity
    return [answer]


def end(stage: ReplayContext, item: ReplayItem, body: Tree) -> Course:
    """Commit or abort, when all that belongs to the transaction has come to its end."""
    yield from stage.in_transaction_order(item, lambda _key: True)
    second = stage.topology.second_generation
    version = stage.version(item, most=99 if second else LAST_OF_FIRST_GENERATION[ApiKey.END_TXN])
    identity = yield from _put_identity(stage, item, body)
    name = stage.names.transactional(item.transaction or "")
    if name not in stage.open_transactions:
        following = issued(stage, item)
        if following is not None:
            stage.producers.learn(following, identity)  # no epoch was raised
        raise SkipRequest(Disposition.DEPENDENCY, "nothing of its transaction was sent")
    body = stage.carried(item, body, version)
    answer: Answer = yield from stage.insist(ApiKey.END_TXN, version, body, stage.client_id(item), item)
    _learn_identity(stage, item, answer.body, identity)
    if answer.body and answer.body["error_code"]:
        stage.note(item, f"the transaction did not end: {error_name(answer.body['error_code'])}")
    return [answer]


def abort_open(stage: ReplayContext) -> Coroutine:
    """Abort what is still open: a reader of committed records would wait behind it until the target gives up."""
    for name, identity in list(stage.open_transactions.items()):
        most = 99 if stage.topology.second_generation else LAST_OF_FIRST_GENERATION[ApiKey.END_TXN]
        spoken = stage.topology.versions.get(ApiKey.END_TXN, (0, 0))
        version = chosen_version(ApiKey.END_TXN, 3, (spoken[0], min(spoken[1], most))) or 0
        body: Tree = {
            "transactional_id": name,
            "producer_id": identity.producer_id,
            "producer_epoch": identity.producer_epoch,
            "committed": False,
        }
        answer: Answer = yield from stage.insist(ApiKey.END_TXN, version, body, None)
        if answer.body and not answer.body["error_code"]:
            stage.counts["transactions aborted at the end"] += 1
            stage.open_transactions.pop(name, None)


def issued(stage: ReplayContext, item: ReplayItem) -> Key | None:
    """Give the producer id and epoch that the captured answer issued."""
    body = stage.captured_answer(item)
    if not body or body.get("error_code") or body.get("producer_id", -1) < 0:
        return None
    return body["producer_id"], body["producer_epoch"]


def _learn_identity(stage: ReplayContext, item: ReplayItem, said: Tree, before: Identity) -> None:
    """Take in the producer that an answer issues (in the first generation EndTxn leaves it as it was), and begin anew with it."""
    if not said or said["error_code"]:
        return
    captured = issued(stage, item)
    if captured is not None:
        following = Identity(said.get("producer_id", -1), said.get("producer_epoch", -1))
        stage.producers.learn(captured, following if following.producer_id >= 0 else before)
    if item.transaction is not None:
        name = stage.names.transactional(item.transaction)
        stage.added[name].clear()
        stage.open_transactions.pop(name, None)


def _put_identity(stage: ReplayContext, item: ReplayItem, body: Tree, front: str = "") -> Coroutine:
    """Put the target's producer into a request of a transaction."""
    key = (body[f"{front}producer_id"], body[f"{front}producer_epoch"])
    identity: Identity = yield from stage.identity(item, key)
    body[f"{front}producer_id"], body[f"{front}producer_epoch"] = identity
    return identity


def _add_group(
    stage: ReplayContext, item: ReplayItem, name: str, group: str, identity: Identity
) -> Coroutine:
    """Add the group to the transaction where the captured client left that to TxnOffsetCommit."""
    body: Tree = {
        "transactional_id": name,
        "producer_id": identity.producer_id,
        "producer_epoch": identity.producer_epoch,
        "group_id": stage.names.group(group),
    }
    version = (
        chosen_version(ApiKey.ADD_OFFSETS_TO_TXN, 3, stage.topology.versions.get(ApiKey.ADD_OFFSETS_TO_TXN))
        or 0
    )
    yield from stage.insist(ApiKey.ADD_OFFSETS_TO_TXN, version, body, stage.client_id(item))
    stage.note(item, "the group was added to the transaction first")
