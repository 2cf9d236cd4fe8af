"""The nodes that a rewritten request goes to: the leaders of its partitions, a coordinator, or whichever.

The default handler lies here too: rewriting, routing and sending are all that most APIs need.
"""

from kdissect.replay.effects import Answer, Coroutine, Part, ask
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.handlers.waiting import until_written_before
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.rewrite.names import Tree
from kdissect.replay.target.cluster import PARTITIONS_OF, split


def route(context: ReplayContext, item: ReplayItem, version: int, body: Tree) -> Coroutine[list[Part]]:
    """Return a rewritten request as the parts that its nodes get.

    Raise SkipRequest if its coordinator is not found.
    """
    key, client_id = item.request.key, context.rewriter.client_id(item)
    if key in PARTITIONS_OF:
        bodies = split(key, body, context.cluster, context.names)
        context.notes.add_split(item, len(bodies))
        return [Part(key, version, each, node, client_id) for node, each in bodies]
    node = yield from context.coordinators.node_for(key, body)
    return [Part(key, version, body, node, client_id)]


def send_routed(
    context: ReplayContext, item: ReplayItem, version: int, body: Tree
) -> Coroutine[list[Answer]]:
    """Send a rewritten request to its nodes, and return their answers.

    Leaders are learnt anew if one has moved.
    """
    answers = yield from ask((yield from route(context, item, version, body)))
    yield from context.leaders.refresh_if_moved(answers)
    return answers


def send_to_coordinator(
    context: ReplayContext, item: ReplayItem, version: int, body: Tree
) -> Coroutine[Answer]:
    """Send a rewritten request to its coordinator until the answer is more than a passing error."""
    client_id = context.rewriter.client_id(item)
    return (yield from context.coordinators.ask(item.request.key, version, body, client_id, item))


def default_handler(context: ReplayContext, item: ReplayItem, body: Tree) -> Coroutine[list[Answer]]:
    """Replay a request that needs no more than the target's values, a version and a node."""
    version = context.rewriter.version(item)
    yield from until_written_before(context, item, body)
    body = context.rewriter.rewrite(item, body, version)
    return (yield from send_routed(context, item, version, body))
