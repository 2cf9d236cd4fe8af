"""What the leader of a classic group assigns: the captured partitions, to the members that the group has now.

If the target's members are not those of the captured generation, the captured partitions are dealt out among
those that are there. If the capture has no assignment, all partitions of the topics that the leader
subscribes to are.
"""

from kdissect.protocol.codec.messages import encode_embedded, require_embedded
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.identifiers import TopicPartition
from kdissect.replay.rewrite.names import Tree
from kdissect.replay.rewrite.roles import rewritten_embedded
from kdissect.replay.target.members import LiveMember

ASSIGNMENT, SUBSCRIPTION = "ConsumerProtocolAssignment", "ConsumerProtocolSubscription"


def assignments(context: ReplayContext, leader: LiveMember, captured_generation: int) -> list[Tree]:
    """Return the assignments of a SyncGroup request, one for each member that the leader knows."""
    captured = context.loaded.assignments.get((leader.group, captured_generation), {})
    known = context.members.of_group(leader.group)
    by_live = {
        known[name].member_id: assigned for name, assigned in captured.items() if name in known and assigned
    }
    if captured and set(by_live) == set(leader.others):
        return [
            {"member_id": member, "assignment": rewritten_embedded(ASSIGNMENT, assigned, context.names)}
            for member, assigned in by_live.items()
        ]
    if not leader.others:  # the target named a leader of no members
        return []
    partitions = _captured_partitions(captured, context) or _subscribed_partitions(leader, context)
    dealt: dict[str, dict[str, list[int]]] = {member: {} for member in leader.others}
    for number, (topic, partition) in enumerate(partitions):
        dealt[leader.others[number % len(leader.others)]].setdefault(topic, []).append(partition)
    context.notes.counts["assignments dealt out anew"] += 1
    return [{"member_id": member, "assignment": _encoded(topics)} for member, topics in dealt.items()]


def _encoded(topics: dict[str, list[int]]) -> bytes:
    tree = {"assigned_partitions": [{"topic": name, "partitions": parts} for name, parts in topics.items()]}
    return encode_embedded(ASSIGNMENT, 0, tree)


def _captured_partitions(captured: dict[str, bytes], context: ReplayContext) -> list[TopicPartition]:
    return [
        (context.names.topic(topic["topic"]), partition)
        for assigned in captured.values()
        for topic in require_embedded(ASSIGNMENT, assigned)["assigned_partitions"]
        for partition in topic["partitions"]
    ]


def _subscribed_partitions(leader: LiveMember, context: ReplayContext) -> list[TopicPartition]:
    topics: set[str] = set()
    for protocol in leader.join.get("protocols", ()):
        topics.update(require_embedded(SUBSCRIPTION, protocol["metadata"])["topics"])
    return [
        (topic, partition)
        for topic in sorted(topics)
        if topic in context.cluster.topics
        for partition in sorted(context.cluster.topics[topic].leaders)
    ]
