"""Consumer groups of the classic protocol, driven by role and not by copy (`--groups full`).

A join says what the captured member said, under the id that the target gave; whoever the *target* names leader sends the assignment.
Copied ids would give every member an empty assignment, without an error. Members that joined before the capture are let in
first (see `elders`).
"""

from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.disposition import Disposition
from kdissect.replay.effects import Answer, Course
from kdissect.replay.handlers.assignment import assignments
from kdissect.replay.handlers.prior_member_joins import (
    NOT_IN,
    member_if_any,
    member_of,
)
from kdissect.replay.handlers.rejoin import (
    as_member,
    joined,
    longer,
    put,
)
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.load.analysis import ReplayItem
from kdissect.replay.rewrite.roles import (
    SkipRequest,
    Tree,
)
from kdissect.replay.target.members import Live

LEAST_JOIN = 2  # 4.0 brokers dropped what is older


def join(stage: ReplayContext, item: ReplayItem, body: Tree) -> Course:
    """Join as the live member."""
    version = stage.version(item, least=LEAST_JOIN)
    group, captured = body["group_id"], body["member_id"]
    live = stage.members.live(group, captured) or Live(group, "")
    live.connection = item.request.connection
    longer(stage, body)
    body["member_id"] = live.member_id
    said = stage.captured_answer(item)
    body = stage.carried(item, body, version)
    answer: Answer = yield from stage.insist(ApiKey.JOIN_GROUP, version, body, stage.client_id(item), item)
    # A captured join that did not get in comes again by itself: going further would leave a member that never syncs.
    stop_at_id = bool(said.get("error_code", -1))
    answer = yield from joined(stage, stage.client_id(item), live, body, version, answer, stop_at_id)
    for name in {captured, said.get("member_id") or captured}:
        if name:
            stage.members.learn(name, live)
    return [answer]


def sync(stage: ReplayContext, item: ReplayItem, body: Tree) -> Course:
    """Take the assignment, or give it if the target made this member the leader."""
    version = stage.version(item)
    live = yield from member_of(stage, body["group_id"], body["member_id"])
    captured_generation = body["generation_id"]
    body["assignments"] = []
    body = stage.carried(item, body, version)
    put(body, live, version)
    if live.leads:
        body["assignments"] = assignments(stage, live, captured_generation)
        stage.note(item, f"assigns to {len(body['assignments'])} members as the leader that the target named")
    return [(yield from as_member(stage, item, live, version, body))]


def heartbeat(stage: ReplayContext, item: ReplayItem, body: Tree) -> Course:
    """Say that the live member lives; go through a rebalance that only the target has."""
    version = stage.version(item)
    live = yield from member_of(stage, body["group_id"], body["member_id"])
    body = stage.carried(item, body, version)
    body["member_id"], body["generation_id"] = live.member_id, live.generation
    return [(yield from as_member(stage, item, live, version, body))]


def leave(stage: ReplayContext, item: ReplayItem, body: Tree) -> Course:
    """Leave as the live members."""
    version = stage.version(item)
    group = body["group_id"]
    captured = [each["member_id"] for each in body["members"]] if "members" in body else [body["member_id"]]
    known: dict[str, Live | None] = {}
    for name in captured:
        known[name] = yield from member_if_any(stage, group, name)
    if not any(known.values()) and any(captured):
        raise SkipRequest(Disposition.DEPENDENCY, NOT_IN)
    for each in body.get("members", (body,)):
        live = known.get(each["member_id"])
        each["member_id"] = live.member_id if live else each["member_id"]
    body = stage.carried(item, body, version)
    answer: Answer = yield from stage.insist(ApiKey.LEAVE_GROUP, version, body, stage.client_id(item), item)
    for name in captured:
        stage.members.forget(group, name)
    return [answer]
