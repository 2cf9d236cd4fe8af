"""What the leader of a classic group assigns: the captured partitions, to the members that are there now.

Where the target's members are others than the captured generation's, the captured partitions are dealt out among those who are
there; where the capture has no assignment, all partitions of the topics that the leader subscribes to are.
"""

from kdissect.protocol.codec.messages import decode_embedded, encode_embedded
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.rewrite.roles import Tree, rewritten_embedded
from kdissect.replay.target.members import Live

ASSIGNMENT, SUBSCRIPTION = "ConsumerProtocolAssignment", "ConsumerProtocolSubscription"


def assignments(stage: ReplayContext, leader: Live, captured_generation: int) -> list[Tree]:
    """Give each live member the partitions that its captured one had, or deal them out if the members are others."""
    captured = stage.loaded.assignments.get((leader.group, captured_generation), {})
    known = stage.members.of_group(leader.group)
    by_live = {
        known[name].member_id: assigned for name, assigned in captured.items() if name in known and assigned
    }
    if captured and set(by_live) == set(leader.others):
        return [
            {"member_id": member, "assignment": rewritten_embedded(ASSIGNMENT, assigned, stage.names)}
            for member, assigned in by_live.items()
        ]
    partitions = _partitions(captured, stage) or _subscribed(leader, stage)
    dealt: dict[str, dict[str, list[int]]] = {member: {} for member in leader.others}
    for number, (topic, partition) in enumerate(partitions):
        dealt[leader.others[number % len(leader.others)]].setdefault(topic, []).append(partition)
    stage.counts["assignments dealt out anew"] += 1
    return [{"member_id": member, "assignment": _assignment(topics)} for member, topics in dealt.items()]


def _assignment(topics: dict[str, list[int]]) -> bytes:
    tree = {"assigned_partitions": [{"topic": name, "partitions": parts} for name, parts in topics.items()]}
    return encode_embedded(ASSIGNMENT, 0, tree)


def _partitions(captured: dict[str, bytes], stage: ReplayContext) -> list[tuple[str, int]]:
    return [
        (stage.names.topic(topic["topic"]), partition)
        for assigned in captured.values()
        for topic in decode_embedded(ASSIGNMENT, assigned).value.get("assigned_partitions", ())
        for partition in topic["partitions"]
    ]


def _subscribed(leader: Live, stage: ReplayContext) -> list[tuple[str, int]]:
    topics: set[str] = set()
    for protocol in leader.join.get("protocols", ()):
        topics.update(decode_embedded(SUBSCRIPTION, protocol["metadata"]).value.get("topics", ()))
    return [
        (topic, partition)
        for topic in sorted(topics)
        if topic in stage.topology.topics
        for partition in sorted(stage.topology.topics[topic].leaders)
    ]
