"""Causes that lie with the disks of a broker."""

from kdissect.report.incidents.cause import SECOND, Case, Cause, Diagnosis, Layer, Link, Relation
from kdissect.report.incidents.client_links import LED_BY_CLIENTS
from kdissect.report.incidents.replica_causes import REPLICAS
from kdissect.report.model.findings import Severity
from kdissect.report.wording import capitalized, listed

TOPICS_NAMED = 3


def log_directory_failed(case: Case) -> Diagnosis:
    """A server cannot reach some of its logs, and goes on."""
    own = case.anchor
    leaderless = case.near(("leader_missing",), Relation.TOPIC, 5 * SECOND, 30 * SECOND)
    topics = sorted({topic for one in leaderless for topic in one.topics})
    lost = (
        f"; topic {listed(topics, TOPICS_NAMED)} has partitions without a leader since then" if topics else ""
    )
    return Diagnosis(
        own.subject,
        min(one.begin_ns for one in (own, *leaderless)),
        None,
        f"{capitalized(own.sentence)}{lost}",
        0.9,
        (own, *leaderless),
        speaks_for=("only a broker with a log directory that is offline answers so",),
    )


STORAGE_CAUSES = (
    Cause(
        name="log_directory_failed",
        layer=Layer.SERVER,
        severity=Severity.CRITICAL,
        anchors=("storage_failed",),
        judge=log_directory_failed,
        links=(
            Link(
                (
                    "leader_missing",
                    "leadership_left",
                    "leader_moved",
                    "errors_repeated",
                    "retriable_errors_lasted",
                ),
                Relation.TOPIC,
                5 * SECOND,
                30 * SECOND,
            ),
            Link(("leadership_left", "leaders_moved", *REPLICAS), Relation.ANYWHERE, 5 * SECOND, 30 * SECOND),
            Link(LED_BY_CLIENTS, Relation.CLIENT, SECOND, 30 * SECOND),
        ),
        needs="a server answers with KAFKA_STORAGE_ERROR",
        against="",
        means="A disk of the broker is full or broken. It goes on without that log directory, and gives up "
        "all partitions there: those without another replica have no leader.",
        next="the broker's log (Error while writing to checkpoint, No space left on device); its disks; "
        "kafka-log-dirs --describe",
    ),
)
