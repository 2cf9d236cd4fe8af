"""Leaders that moved and replicas that left the in-sync replicas, learnt from Metadata alone."""

from pathlib import Path

from tests.helpers.told_capture import T0_MS, Story
from tests.helpers.told_cluster import cluster, name_of
from tests.helpers.told_groups import analyzed
from tests.helpers.told_metadata import VERSION, WITHOUT_EPOCHS, State, tell

ALL = (1, 2, 3)
KINDS = ("leaders_moved", "replicas_out_of_sync")


def signals(tmp_path: Path, *told: tuple[float, dict[int, State]]) -> list[tuple[str, str, str]]:
    """Return kind, subject and sentence of the signals about what Metadata told at some times (ms)."""
    story, lines = cluster(lambda node, at_ms: 3)
    for number, (at_ms, states) in enumerate(told):
        tell(lines["writer-a", 1 + number % 3], at_ms, "orders", states)
    found = analyzed(story, tmp_path)
    assert found.incidents == ()
    return [(one.kind, one.subject.name, one.sentence) for one in found.signals if one.kind in KINDS]


def test_partitions_that_a_broker_no_longer_leads(tmp_path: Path) -> None:
    before = dict.fromkeys(range(4), (3, 7, ALL))
    after: dict[int, State] = {0: (1, 8, ALL), 1: (2, 8, ALL), 2: (1, 8, ALL), 3: (3, 7, ALL)}
    ((kind, subject, sentence),) = signals(tmp_path, (100, before), (9_000, after))
    assert (kind, subject) == ("leaders_moved", name_of(3))
    assert (
        f"3 partitions moved from {name_of(3)} to brokers 1 and 2 (orders-0, orders-1, orders-2)" in sentence
    )


def test_a_broker_that_learns_late_moves_nothing_back(tmp_path: Path) -> None:
    before, after = {0: (3, 7, ALL)}, {0: (1, 8, ALL)}
    found = signals(tmp_path, (100, before), (9_000, after), (9_500, before), (12_000, after))
    assert [(kind, subject) for kind, subject, _ in found] == [("leaders_moved", name_of(3))]


def old_client_too(tmp_path: Path, new_version: int) -> list[tuple[str, int]]:
    """Return which leaders lost partitions, and when (ms), as an old client learns with a new one."""
    story, lines = cluster(lambda node, at_ms: 3)
    for at_ms, (leader, epoch) in ((100, (3, 7)), (5_000, (3, 7)), (9_000, (1, 8)), (14_000, (1, 8))):
        tell(lines["writer-a", 1], at_ms, "orders", {0: (leader, epoch, ALL)}, new_version)
        tell(lines["writer-b", 2], at_ms + 50, "orders", {0: (leader, epoch, ALL)}, WITHOUT_EPOCHS)
    found = analyzed(story, tmp_path).signals
    return [(one.subject.name, one.begin_ns // 10**6 - T0_MS) for one in found if one.kind == "leaders_moved"]


def test_metadata_without_epochs_beside_such_with_epochs_moves_nothing(tmp_path: Path) -> None:
    assert old_client_too(tmp_path, VERSION) == [(name_of(3), 9_002)]


def test_metadata_without_epochs_alone_is_in_the_order_of_time(tmp_path: Path) -> None:
    assert old_client_too(tmp_path, WITHOUT_EPOCHS) == [(name_of(3), 9_002)]


def test_the_replica_that_is_missing_is_named_until_it_is_back(tmp_path: Path) -> None:
    whole, without = {0: (1, 7, ALL), 1: (1, 7, ALL)}, {0: (1, 7, (1, 3)), 1: (1, 7, (1, 3))}
    ((kind, subject, sentence),) = signals(tmp_path, (100, whole), (9_000, without), (19_000, whole))
    assert (kind, subject) == ("replicas_out_of_sync", name_of(2))
    assert f"{name_of(2)} is out of sync for 2 partitions (orders-0, orders-1)" in sentence
    assert "until" in sentence


def test_a_replica_that_stays_away_has_no_end(tmp_path: Path) -> None:
    story, lines = cluster(lambda node, at_ms: 3)
    tell(lines["writer-a", 1], 9_000, "orders", {0: (1, 7, (1, 3))})
    (found,) = [one for one in analyzed(story, tmp_path).signals if one.kind == "replicas_out_of_sync"]
    assert found.end_ns is None
    assert found.begin_ns // 10**6 - T0_MS == 9_002
    assert found.evidence[0].place is not None
    assert found.evidence[0].place.topic == "orders"


def test_a_story_without_metadata_of_topics_tells_nothing(tmp_path: Path) -> None:
    story: Story = cluster(lambda node, at_ms: 3)[0]
    assert not [one for one in analyzed(story, tmp_path).signals if one.kind in KINDS]
