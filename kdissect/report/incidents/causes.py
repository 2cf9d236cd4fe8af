"""The table of causes: names that stay, what each starts from, needs and explains, and what to do.

docs/incidents.md is made from it. Rows of modules stand here together, so that the order of layers and what
one cause explains of another can be seen at a glance.
"""

from kdissect.report.incidents import server_causes
from kdissect.report.incidents.cause import SECOND, Cause, Layer, Link, Relation
from kdissect.report.model.findings import Severity

CRITICAL, WARNING, NOTE = Severity

FOLLOWS_A_LOST_SERVER = (
    Link(
        (
            "connections_ended",
            "attempts_refused",
            "server_silent",
            "unanswered_cut",
            "unanswered_timeout",
            "refused_connections",
            "slow_broker",
            "connection_churn",
        ),
        Relation.SERVER,
    ),
    Link(
        ("leader_moved", "retriable_errors_lasted", "controller_moved", "commit_failed", "metadata_storm"),
        Relation.ANYWHERE,
        before_ns=15 * SECOND,
        after_ns=30 * SECOND,
    ),
    Link(("member_expired", "rebalance_storm", "behind_long_poll"), Relation.CLIENT, after_ns=30 * SECOND),
)

CAUSES = (
    Cause(
        name="broker_killed",
        layer=Layer.SERVER,
        severity=CRITICAL,
        anchors=("connections_ended",),
        judge=server_causes.broker_killed,
        links=FOLLOWS_A_LOST_SERVER,
        needs="most connections of a server end within a moment while their clients go on, and new attempts "
        "are refused or requests were cut off",
        against="leadership moved away from the server before: it was stopped in good order",
        means="The process of the broker ended without a handover, or its machine did.",
        next="the broker's log, the kernel's log (out of memory), who or what killed the process",
    ),
    Cause(
        name="broker_stopped",
        layer=Layer.SERVER,
        severity=WARNING,
        anchors=("connections_ended",),
        judge=server_causes.broker_stopped,
        links=FOLLOWS_A_LOST_SERVER,
        needs="as broker_killed, and leadership moved away from the server before its connections ended",
        against="no sign of a handover: it was killed",
        means="The broker was shut down in good order: somebody or something restarted it.",
        next="deployments and restarts at that time; controlled.shutdown.enable; how long it took to be back",
    ),
    Cause(
        name="broker_frozen",
        layer=Layer.SERVER,
        severity=CRITICAL,
        anchors=("server_silent",),
        judge=server_causes.broker_frozen,
        links=FOLLOWS_A_LOST_SERVER,
        needs="no byte from a server on any connection for a second or more, while requests of several "
        "connections waited",
        against="its host did not acknowledge packets either: then the path or the host is dead",
        means="The process stood still while its host went on: a pause of the collector of garbage, a disk "
        "that hung, a paused virtual machine or container.",
        next="the broker's log of garbage collection, its disks, its host (steal time, limits of the "
        "container) at that moment",
    ),
)
