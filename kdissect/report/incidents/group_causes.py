"""Causes that lie with groups, transactions and positions: members, instance ids, producers, offsets, lag."""

from kdissect.report.incidents.cause import SECOND, Case, Cause, Diagnosis, Layer, Link, Relation
from kdissect.report.incidents.client_links import FOLLOWS_A_CLIENT, FOLLOWS_A_GROUP, stated
from kdissect.report.model.findings import Severity
from kdissect.report.wording import capitalized

CRITICAL, WARNING, NOTE = Severity

TIMED_OUT_NS = 600 * SECOND
"""A transaction that began this long before its producer was fenced may have exceeded its timeout."""

MANY_FETCHES = 100
"""Small fetches a second of one consumer that are too many even if it catches up."""

FELT_NS = 5 * SECOND
"""Latency that rises within this of the first small fetches may be their consequence."""

AGAIN = 2
"""A record that is fetched so many times in each life of its reader is why the reader ends."""


def zombie_producer(case: Case) -> Diagnosis | None:
    """A producer is fenced, and not since its own transaction timed out."""
    own = not case.anchor.measures["rivals"]
    if own and case.near(("transaction_open",), Relation.SUBJECT, TIMED_OUT_NS, 0):
        return None
    return stated(0.95)(case)


def rebalance_held_up(case: Case) -> Diagnosis | None:
    """A member joins late, and is not about to be given up."""
    held_up = case.anchor
    lost = case.near(("poll_exceeded", "member_lost"), Relation.GROUP, 30 * SECOND, 30 * SECOND)
    if any(held_up.subject.name in one.clients for one in lost):
        return None
    return stated(0.85)(case)


def rebalances_by_topics(case: Case) -> Diagnosis | None:
    """Members join anew by themselves, and none of them starts again and again."""
    if case.near(("member_restarts", "poll_exceeded"), Relation.GROUP, 30 * SECOND, 30 * SECOND):
        return None
    plain = stated(0.75)(case)
    return plain._replace(headline=capitalized(plain.headline))


def _restarts(case: Case) -> int:
    """Return how many times the reader of a repeated offset started as a new member of its group."""
    near = case.near(("member_restarts",), Relation.CLIENT, 30 * SECOND, 30 * SECOND)
    return max((signal.measures["count"] for signal in near), default=0)


def poison_record(case: Case) -> Diagnosis | None:
    """A record is fetched again and again; once in each life of a reader is no sign of it."""
    cut = case.near(("responses_cut",), Relation.CLIENT, 30 * SECOND, 30 * SECOND)
    if case.anchor.measures["count"] < AGAIN * _restarts(case) or cut:
        return None
    return stated(0.8)(case)


def rebalance_loop(case: Case) -> Diagnosis | None:
    """A client starts again and again; where it always begins at one offset, the record there may be why."""
    if case.near(("offsets_uncommitted",), Relation.CLIENT, 60 * SECOND, 60 * SECOND):
        return None  # it lives long enough, and reads everything again each time
    stuck = [
        signal
        for signal in case.near(("offset_repeated",), Relation.CLIENT, 30 * SECOND, 30 * SECOND)
        if set(signal.clients) & {case.anchor.subject.name}
    ]
    if any(signal.measures["count"] >= AGAIN * case.anchor.measures["count"] for signal in stuck):
        return None
    plain = stated(0.9)(case)
    if not stuck:
        return plain
    where = f"offset {stuck[0].measures['offset']:,} of {stuck[0].topics[0]}-{stuck[0].measures['partition']}"
    return plain._replace(
        headline=f"{plain.headline}; it never gets past {where}",
        core=(case.anchor, *stuck),
        speaks_against=(f"the record at {where} may be why it ends",),
    )


def small_fetches(case: Case) -> Diagnosis:
    """Fetches are limited by their own size; a note if the consumer soon caught up and nobody felt it."""
    own = case.anchor
    plain = stated(0.85)(case)
    slow = case.near(("lag_grew",), Relation.CLIENT, 10 * SECOND, 10 * SECOND)
    felt = case.near(("latency_rose", "client_latency_rose"), Relation.SERVER, FELT_NS, 0)
    busy = own.measures["per_second"] >= MANY_FETCHES
    if not (slow or felt or busy or own.measures["left_at_end"]):
        return plain._replace(severity=NOTE)
    return plain


GROUP_CAUSES = (
    Cause(
        name="offset_out_of_range",
        layer=Layer.CLIENT,
        severity=WARNING,
        anchors=("offsets_gone",),
        judge=stated(0.9),
        links=FOLLOWS_A_CLIENT,
        needs="a fetch is refused with OFFSET_OUT_OF_RANGE",
        against="",
        means="The records that the consumer wants next were deleted, or the log was cut. It goes on where "
        "auto.offset.reset says, and what lies between is lost to it.",
        next="retention of the topic against the time that the group was away; auto.offset.reset",
    ),
    Cause(
        name="inconsistent_group_protocol",
        layer=Layer.CLIENT,
        severity=CRITICAL,
        anchors=("protocol_refused",),
        judge=stated(0.95),
        links=FOLLOWS_A_CLIENT,
        needs="a join is refused with INCONSISTENT_GROUP_PROTOCOL twice or more",
        against="",
        means="The members of the group share no assignor, so this one cannot join.",
        next="partition.assignment.strategy of this client and of the others",
    ),
    Cause(
        name="group_kind_mixed",
        layer=Layer.CLIENT,
        severity=CRITICAL,
        anchors=("group_kind_refused",),
        judge=stated(0.95),
        links=FOLLOWS_A_CLIENT,
        needs="a heartbeat of a share, streams or KIP-848 group is refused with GROUP_ID_NOT_FOUND twice or "
        "more",
        against="",
        means="Another application has this group id for a group of another kind, such as a classic consumer "
        "group beside a share group, so this one cannot join.",
        next="who else uses the group id (kafka-groups --list names the kind of each group); a group id for "
        "this one",
    ),
    Cause(
        name="zombie_producer",
        layer=Layer.CLIENT,
        severity=CRITICAL,
        anchors=("producer_fenced_out",),
        judge=zombie_producer,
        links=FOLLOWS_A_CLIENT,
        needs="a producer is fenced while, or after, another one began with its transactional id",
        against="no other one is seen, and its own transaction was open for long: it timed out",
        means="Two producers have one transactional.id: the later one fences the earlier one.",
        next="which of the two should run; how transactional ids are given out",
    ),
    Cause(
        name="open_transaction",
        layer=Layer.CLIENT,
        severity=WARNING,
        anchors=("transaction_open",),
        judge=stated(0.9),
        links=(*FOLLOWS_A_CLIENT, Link(("lag_grew", "lag_growing"), Relation.TOPIC, 15 * SECOND)),
        needs="a transaction lasts for 8 s or more, and five times as long as usual for its producer",
        against="",
        means="Readers of committed records see nothing behind this transaction until it ends or times out.",
        next="whether the producer hangs or works for long; transaction.timeout.ms",
    ),
    Cause(
        name="duplicate_instance_id",
        layer=Layer.CLIENT,
        severity=CRITICAL,
        anchors=("instance_fenced",),
        judge=stated(0.95),
        links=FOLLOWS_A_GROUP,
        needs="a member is fenced by another one with its group.instance.id, or is unknown after that one "
        "joined",
        against="",
        means="Two members have one group.instance.id, and put each other out.",
        next="how group.instance.id is given out; two deployments of one instance",
    ),
    Cause(
        name="slow_consumer",
        layer=Layer.CLIENT,
        severity=WARNING,
        anchors=("poll_exceeded",),
        judge=stated(0.9),
        links=(*FOLLOWS_A_GROUP, Link(("joins_unread",), Relation.CLIENT, before_ns=30 * SECOND)),
        needs="a member leaves its group and joins it again on the same connection, or stays connected "
        "without joining",
        against="it joins at once: it changed its subscription",
        means="Processing takes longer than max.poll.interval.ms, so the client leaves; others take over its "
        "partitions, and records are processed twice.",
        next="the time that records take to process; max.poll.records, max.poll.interval.ms",
    ),
    Cause(
        name="rebalance_loop",
        layer=Layer.CLIENT,
        severity=WARNING,
        anchors=("member_restarts",),
        judge=rebalance_loop,
        links=FOLLOWS_A_GROUP,
        needs="one client, or clients of one host whose ids differ in numbers only, join a group as new "
        "members three times or more, on new connections, and end each time",
        against="different clients join once each, or several of one name live side by side: a deployment",
        means="The client starts again and again, and each time the whole group stops to rebalance.",
        next="why this client ends: its log, its supervisor, its memory",
    ),
    Cause(
        name="session_timeout",
        layer=Layer.CLIENT,
        severity=WARNING,
        anchors=("member_lost",),
        judge=stated(0.85),
        links=FOLLOWS_A_GROUP,
        needs="a member is silent, or ends without leaving, and its group goes on without it, or nobody "
        "reads what it read",
        against="it left in good order, or goes on by another connection; it did not poll; it starts again "
        "and again",
        means="No heartbeat came for session.timeout.ms: the process died, hung or was cut off. Its "
        "partitions stood still until then.",
        next="the client at that time: crash, pause, memory, host; session.timeout.ms",
    ),
    Cause(
        name="response_too_large",
        layer=Layer.CLIENT,
        severity=WARNING,
        anchors=("responses_cut",),
        judge=stated(0.85),
        links=FOLLOWS_A_CLIENT,
        needs="a client closes four or more connections, over 2 s or more, each within 5 s and before all "
        "bytes of a Fetch response have come",
        against="packets are missing that were acknowledged: then the capture lacks them",
        means="The client allows smaller responses than the broker sends: a batch is larger than its limit. "
        "Nothing behind that batch is processed.",
        next="receive.message.max.bytes, fetch.max.bytes and max.partition.fetch.bytes of the client; "
        "max.message.bytes of the topic",
    ),
    Cause(
        name="poison_record",
        layer=Layer.CLIENT,
        severity=WARNING,
        anchors=("offset_repeated",),
        judge=poison_record,
        links=FOLLOWS_A_CLIENT,
        needs="a consumer fetches records from one offset four times or more, over 2 s or more",
        against="its group rebalances: members begin again where the last commit was; it is fetched once "
        "in each life of a client that starts again and again",
        means="The consumer fails at a record and begins again before it: nothing behind it is processed.",
        next="the record at this offset; how the consumer handles errors (skip, or a dead letter topic)",
    ),
    Cause(
        name="offsets_not_committed",
        layer=Layer.CLIENT,
        severity=WARNING,
        anchors=("offsets_uncommitted",),
        judge=stated(0.85),
        links=FOLLOWS_A_GROUP,
        needs="a member of a group begins again at the offset at which the group had begun, after 20 records "
        "or more, and nobody commits offsets of the group in the capture",
        against="",
        means="A group goes on where it has committed. Without commits its members begin where "
        "auto.offset.reset says, so records are processed again after each start, or left out.",
        next="enable.auto.commit of the consumer, or where its code commits; auto.offset.reset",
    ),
    Cause(
        name="offsets_lost",
        layer=Layer.CLIENT,
        severity=WARNING,
        anchors=("offsets_lost",),
        judge=stated(0.9),
        links=FOLLOWS_A_GROUP,
        needs="the coordinator knows no offset of a group for a partition (OffsetFetch has -1) that the "
        "group had committed before",
        against="the topic was deleted and created again; the commits were part of transactions",
        means="The group begins where auto.offset.reset says: with earliest it processes records once more, "
        "with latest it never sees those that were written meanwhile.",
        next="who deleted the group or its offsets (kafka-consumer-groups --delete, --delete-offsets); "
        "offsets.retention.minutes against the time that the group had no members; __consumer_offsets",
    ),
    Cause(
        name="rebalances_by_topics",
        layer=Layer.CLIENT,
        severity=WARNING,
        anchors=("rebalances_by_topics",),
        judge=rebalances_by_topics,
        links=FOLLOWS_A_GROUP,
        needs="members start four rebalances or more by themselves: nobody came, left or was given up, and "
        "no heartbeat told of a rebalance",
        against="a member that starts again and again, or that does not poll in time",
        means="A member joins anew when the topics of its subscription change: a pattern matches a topic "
        "that is new or gone, or partitions are added. All members stand still each time.",
        next="who creates or deletes topics that the subscription of the group matches, and how often; a "
        "list of topics in place of a pattern; a longer metadata.max.age.ms",
    ),
    Cause(
        name="rebalance_held_up",
        layer=Layer.CLIENT,
        severity=WARNING,
        anchors=("rebalance_held_up",),
        judge=rebalance_held_up,
        links=FOLLOWS_A_GROUP,
        needs="heartbeats of a member are answered with REBALANCE_IN_PROGRESS three times or more, over 6 s "
        "or more, and it does not join again meanwhile; its group has other members",
        against="it leaves the group, or is given up: then it does not poll in time",
        means="All members wait until each has joined again. This one is busy with what it polled last, so "
        "with the eager protocol nobody of the group gets records.",
        next="processing time between two polls of this member; max.poll.records and max.poll.interval.ms; "
        "the cooperative assignor, or group.protocol=consumer",
    ),
    Cause(
        name="commit_from_outside",
        layer=Layer.CLIENT,
        severity=WARNING,
        anchors=("commits_refused",),
        judge=stated(0.9),
        links=FOLLOWS_A_CLIENT,
        needs="commits of a client for a group are refused with UNKNOWN_MEMBER_ID three times or more, over "
        "a second or more, and it sends no heartbeat for the group, while others do",
        against="it is a member: then the group went on without it",
        means="A tool, or a consumer with partitions of its own (assign), commits to a group whose members "
        "are at work. The group's offsets stay as its members set them.",
        next="the group.id of this client: one of its own, or stop the members before offsets are set",
    ),
    Cause(
        name="records_released",
        layer=Layer.CLIENT,
        severity=WARNING,
        anchors=("records_given_back",),
        judge=stated(0.9),
        links=FOLLOWS_A_GROUP,
        needs="members of a share group give back ten records or more, over 3 s or more, while records are "
        "delivered for the third time; or they refuse for good half of what they decide on",
        against="a member that ends gives back what it has, once",
        means="The application fails at these records. A broker gives a record up after as many deliveries "
        "as group.share.delivery.count.limit allows (5 if it is not set): nobody processes it then.",
        next="the log of these clients for what fails; the records at these offsets; "
        "group.share.delivery.count.limit",
    ),
    Cause(
        name="small_fetches",
        layer=Layer.CLIENT,
        severity=WARNING,
        anchors=("fetches_small",),
        judge=small_fetches,
        links=(
            *FOLLOWS_A_CLIENT,
            Link(("latency_rose", "client_latency_rose"), Relation.SERVER, FELT_NS, 30 * SECOND),
        ),
        needs="a consumer gets 16 KiB or less a fetch, 50 times or more, while the log has three times as "
        "many records as it gets",
        against="it gets what was just written, and no more is there; below 100 fetches a second, and if "
        "it catches up and no latency rises, it is a note",
        means="The size of its fetches is limited far below what is there: every few records cost a round "
        "trip, so the consumer is slow, above all far from its broker, and the broker busy.",
        next="fetch.max.bytes and max.partition.fetch.bytes of the consumer (fetch.message.max.bytes, "
        "maxBytes or Fetch.Max in other libraries), against the size of a batch",
    ),
    Cause(
        name="growing_lag",
        layer=Layer.CLIENT,
        severity=WARNING,
        anchors=("lag_grew",),
        judge=stated(0.8),
        links=FOLLOWS_A_CLIENT,
        needs="a consumer falls behind for 8 s or more, all the time, by 100 records or more and a quarter "
        "of what is written; or it stops to fetch while it lives",
        against="a burst, a pause between two polls, a partition that another member took over; it fails, "
        "rebalances, or waits for a quota",
        means="The consumer reads or processes more slowly than producers write, until "
        "retention deletes records.",
        next="processing time of a record; more members or partitions",
    ),
)
