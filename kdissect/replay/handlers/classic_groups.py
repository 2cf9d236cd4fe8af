"""Consumer groups of the classic protocol, driven by role and not by copy (`--groups full`).

A join says what the captured member said, under the id that the target gave. The member that the *target*
names leader sends the assignment. Copied ids would give every member an empty assignment, without an error.
Members that joined before the capture join first (see `prior_member_joins`).
"""

from kdissect.protocol.error_codes import ErrorCode
from kdissect.replay.disposition import NOT_IN, Disposition, SkipRequest
from kdissect.replay.effects import Answer, Coroutine, spawn, until
from kdissect.replay.handlers.prior_member_joins import member_if_any, member_of
from kdissect.replay.handlers.rejoin import (
    assignments,
    bring_together,
    finish_join,
    leave_group,
    lengthen_session,
    put_into_sync,
    send_as_member,
)
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.handlers.sending import send_to_coordinator, until_group_allows
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.rewrite.names import Tree
from kdissect.replay.target.members import LiveMember

IDS_GIVEN = frozenset({ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED})
"""Captured answers to a first join whose id the member goes on with."""

LEAST_JOIN = 2  # 4.0 brokers dropped older versions (KIP-896)


def join(context: ReplayContext, item: ReplayItem, body: Tree) -> Coroutine[list[Answer]]:
    """Join as the live member, in the same generation as in the capture."""
    yield from until_group_allows(context, item)
    version = context.rewriter.version(item, least=LEAST_JOIN)
    group, captured = body["group_id"], body["member_id"]
    live = context.members.live(group, captured) or LiveMember(group, "")
    if live.rejoining is not None:  # two joins of one member at once would put it out
        yield from until(live.rejoining)
    live.connection, live.client_id = item.request.connection, context.rewriter.client_id(item)
    lengthen_session(context, body)
    body["member_id"] = live.member_id
    response = context.captured.response(item.request)
    body = context.rewriter.rewrite(item, body, version)
    yield from context.coordinators.node_for(item.request.key, body)
    context.members.joining(item.request.index).open()
    # A captured join that did not get in comes again by itself: going further would leave a member that
    # never syncs.
    stop_at_id = bool(response.get("error_code", -1))
    if not stop_at_id:
        yield from spawn(bring_together(context, item, live), live.connection)
    live.joining = True
    try:
        answer = yield from send_to_coordinator(context, item, version, body)
        answer = yield from finish_join(context, live.client_id, live, body, version, answer, stop_at_id)
    finally:
        live.joining = False
    if not captured and live.member_id and response.get("error_code", -1) not in IDS_GIVEN:
        yield from leave_group(context, live)  # the capture joins anew: nobody will use this id
    else:
        context.members.learn(live, captured, response.get("member_id"))
    return [answer]


def sync(context: ReplayContext, item: ReplayItem, body: Tree) -> Coroutine[list[Answer]]:
    """Sync: get the assignment, or send it if the target made this member the leader."""
    yield from until_group_allows(context, item)
    version = context.rewriter.version(item)
    live = yield from member_of(context, body["group_id"], body["member_id"])
    captured_generation = body["generation_id"]
    body["assignments"] = []
    body = context.rewriter.rewrite(item, body, version)
    put_into_sync(body, live, version)
    if live.leads:
        body["assignments"] = assignments(context, live, captured_generation)
        members = len(body["assignments"])
        named = "1 member" if members == 1 else f"{members} members"
        context.notes.add(item, f"assigns to {named} as the leader that the target named")
    return [(yield from send_as_member(context, item, live, version, body))]


def heartbeat(context: ReplayContext, item: ReplayItem, body: Tree) -> Coroutine[list[Answer]]:
    """Heartbeat as the live member; go through a rebalance that only the target has."""
    yield from until_group_allows(context, item)
    version = context.rewriter.version(item)
    live = yield from member_of(context, body["group_id"], body["member_id"])
    body = context.rewriter.rewrite(item, body, version)
    body["member_id"], body["generation_id"] = live.member_id, live.generation
    return [(yield from send_as_member(context, item, live, version, body))]


def leave(context: ReplayContext, item: ReplayItem, body: Tree) -> Coroutine[list[Answer]]:
    """Leave as the live members."""
    yield from until_group_allows(context, item)
    version = context.rewriter.version(item)
    group = body["group_id"]
    captured = [each["member_id"] for each in body["members"]] if "members" in body else [body["member_id"]]
    known: dict[str, LiveMember | None] = {}
    for name in captured:
        known[name] = yield from member_if_any(context, group, name)
    if not any(known.values()) and any(captured):
        raise SkipRequest(Disposition.DEPENDENCY, NOT_IN)
    for each in body.get("members", (body,)):
        live = known.get(each["member_id"])
        each["member_id"] = live.member_id if live else each["member_id"]
    body = context.rewriter.rewrite(item, body, version)
    answer = yield from send_to_coordinator(context, item, version, body)
    for name in captured:
        context.members.forget(group, name)
    return [answer]
