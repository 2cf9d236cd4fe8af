"""The target's producer for a captured one: learnt from a replayed request, raised, or asked for.

A captured producer id and epoch is issued by an InitProducerId or EndTxn response (KIP-890). If that is in
the capture, its replay is waited for. An epoch that an idempotent client raised by itself (KIP-360) is raised
alike. For a producer that is older than the capture the replayer asks for an id of its own, once.
"""

from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.effects import Coroutine, Gate, until
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.handlers.sending import until_ended
from kdissect.replay.identifiers import ProducerKey
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.rewrite.names import Tree
from kdissect.replay.rewrite.versions import chosen_version
from kdissect.replay.target.cluster import OWN_CLIENT_ID
from kdissect.replay.target.producers import ProducerIdentity

USUAL_TIMEOUT_MS = 60_000  # transaction.timeout.ms of a client that nobody configured
NO_ID = "the target gave no producer id"


def producer_identity(
    context: ReplayContext, item: ReplayItem, key: ProducerKey
) -> Coroutine[ProducerIdentity]:
    """Return the target's producer for a captured one. Raise SkipRequest if the target gives none."""
    producers = context.producers
    known = producers.identity(key)
    if known is not None:
        return known
    issuer = context.loaded.issuers.get(key)
    if issuer is not None and issuer < item.request.index:
        yield from until_ended(context, issuer, "the request that got the producer id")
        known = producers.identity(key)
        if known is not None:
            return known
    if item.transaction is None and issuer is None:
        raised = producers.raised(key)
        if raised is not None:
            return raised
    return (yield from _requested_identity(context, item, key))


def _requested_identity(
    context: ReplayContext, item: ReplayItem, key: ProducerKey
) -> Coroutine[ProducerIdentity]:
    """Ask the target for a producer id, once for each captured producer."""
    producers = context.producers
    asking = producers.asking.get(key)
    if asking is not None:
        yield from until(asking)
        known = producers.identity(key)
        if known is None:
            raise SkipRequest(Disposition.DEPENDENCY, NO_ID)
        return known
    gate = producers.asking[key] = Gate()
    try:
        name = context.names.transactional(item.transaction) if item.transaction else None
        body: Tree = {"transactional_id": name, "transaction_timeout_ms": USUAL_TIMEOUT_MS}
        api = ApiKey.INIT_PRODUCER_ID
        version = chosen_version(api, 4, context.cluster.versions.get(api)) or 0
        answer = yield from context.coordinators.ask(api, version, body, OWN_CLIENT_ID)
        response = answer.body
        if not response or response["error_code"]:
            raise SkipRequest(Disposition.DEPENDENCY, NO_ID)
        identity = ProducerIdentity(response["producer_id"], response["producer_epoch"])
        producers.learn(key, identity)
        context.notes.counts["producer ids asked for"] += 1
        return identity
    finally:
        del producers.asking[key]
        gate.open()
