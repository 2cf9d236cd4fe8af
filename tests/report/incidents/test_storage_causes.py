"""A broker that lost a log directory is to blame for topics that have no leader since then."""

from pathlib import Path

from kdissect.protocol.error_codes import ErrorCode
from tests.helpers.told_cluster import cluster, name_of
from tests.helpers.told_groups import analyzed, produce
from tests.report.incidents.test_cluster_causes import without_leader


def test_topics_without_a_leader_follow_from_the_disk(tmp_path: Path) -> None:
    story, _ = cluster(lambda node, at_ms: 3)
    without_leader(story, 12_000, 30_000)
    line = story.connect("10.1.0.7", ("10.0.0.2", 9092), client_id="ledger")
    for at_ms in range(100, 12_000, 300):
        error = ErrorCode.KAFKA_STORAGE_ERROR if at_ms >= 11_500 else 0
        produce(line, at_ms, topic="audit", error=error, offset=at_ms)
    (incident,) = analyzed(story, tmp_path).incidents
    assert (incident.cause, incident.subject.name) == ("log_directory_failed", name_of(2))
    assert (
        "refused with KAFKA_STORAGE_ERROR; topic audit has partitions without a leader" in incident.headline
    )
