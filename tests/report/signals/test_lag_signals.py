"""Lag as signals: growth that lasts, and not a burst, a pause between two polls or a partition that moved."""

from pathlib import Path

import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.report.model.incidents import Signal
from kdissect.report.signals.lag_signals import caught_up_ns, has_grown
from kdissect.report.signals.log_positions import Lag
from tests.helpers.told_capture import T0_MS, Line, Story, batch
from tests.helpers.told_groups import analyzed, fetch, heartbeat, heartbeats, produce

SECOND = 10**9
COORDINATOR = {"error_code": 0, "error_message": None, "node_id": 2, "host": "10.1.0.20", "port": 9092}


def a_second(*records: int, before: int = 0, written: int = 0) -> Lag:
    """Return a lag with one value each second."""
    return Lag([SECOND * at for at in range(len(records))], list(records), before, written)


@pytest.mark.parametrize(
    ("lag", "grows"),
    [
        (a_second(*range(0, 1200, 40)), True),
        (a_second(*range(0, 1200, 40), written=10_000), False),  # it keeps up with nearly all
        (a_second(*[0] * 25, 400, 800, 1200), False),  # a burst at the end
        (a_second(*(600, 0, 300) * 9, 600), False),  # polls now and then
        (a_second(*range(0, 240, 40)), False),  # too short
        (a_second(*range(5000, 5300, 10), before=5000), False),  # was there before
        (
            a_second(*range(5000, 8000, 100), before=5000, written=3500),
            True,
        ),  # and it gets little of the rest
        (a_second(*range(5000, 8000, 100), before=5000, written=9000), False),  # it gets most of the rest
        (a_second(*range(0, 1200, 40), 300), False),  # and gone
    ],
)
def test_lag_grows_if_it_does_so_all_the_time(lag: Lag, grows: bool) -> None:
    assert has_grown(lag) is grows


def test_lag_that_shrinks_will_be_gone_at_a_time() -> None:
    assert caught_up_ns(a_second(*range(4000, 1800, -200))) == 20 * SECOND
    assert caught_up_ns(a_second(*range(1800, 4000, 200))) is None
    assert caught_up_ns(a_second(*[4000] * 10)) is None


def lags(story: Story, tmp_path: Path, kind: str = "lag_grew") -> list[Signal]:
    return [one for one in analyzed(story, tmp_path).signals if one.kind == kind]


def written(story: Story, seconds: int = 30) -> Line:
    """Write 50 records a second."""
    writer = story.connect("10.1.0.9", client_id="writer")
    for number in range(2 * seconds):
        produce(writer, 100 + 500 * number, count=25, offset=25 * number)
    return writer


def keeps_up(line: Line, begin_ms: int, end_ms: int) -> None:
    """Read all that is written, every half second."""
    for at_ms in range(begin_ms, end_ms, 500):
        end = 25 * (at_ms // 500 + 1)
        fetch(line, at_ms, end - 25, end, records=25)


def test_a_reader_that_stops_to_fetch_while_it_lives_falls_behind(tmp_path: Path) -> None:
    story = Story()
    written(story)
    reader = story.connect("10.1.0.2", client_id="stuck")
    fetch(reader, 300, 0, 25, records=25)
    fetch(reader, 4_300, 25, 200, records=175)
    heartbeats(story.connect("10.1.0.2", client_id="stuck"), 500, 30_000, "m", 1)
    (signal,) = lags(story, tmp_path)
    assert signal.sentence.startswith(
        "stuck at 10.1.0.2 (group readers) has not fetched from topic orders since "
    )
    assert signal.measures["after"] == 1_475 - 50
    assert "never catches up" in signal.sentence


def test_a_reader_that_ended_or_handed_over_its_partition_is_not_behind(tmp_path: Path) -> None:
    story = Story()
    written(story)
    ended = story.connect("10.1.0.2", client_id="ended")
    fetch(ended, 300, 0, 25, records=25)
    for number, name in enumerate(("first", "second")):
        line = story.connect(f"10.1.0.{3 + number}", client_id=name)
        heartbeats(line, 500, 30_000, name, 1)
        keeps_up(line, 300 + 10_000 * number, 10_000 + 20_000 * number)
    assert not lags(story, tmp_path)


def reads_of_a_member_elsewhere(story: Story, keeps: bool) -> None:
    """Read until 12 s; the coordinator, to which heartbeats go, is not in the capture."""
    reader = story.connect("10.1.0.2", client_id="paused")
    reader.call(100, 1, ApiKey.FIND_COORDINATOR, 1, {"key": "readers", "key_type": 0}, COORDINATOR)
    keeps_up(reader, 300, 12_000)
    if not keeps:
        reader.close(12_500)


@pytest.mark.parametrize(
    ("keeps", "others", "told"), [(True, False, 1), (False, False, 0), (True, True, 0)],
    ids=["connected", "ended", "handed over"],
)  # fmt: skip
def test_a_reader_whose_coordinator_is_not_captured_lives_while_it_is_connected(
    keeps: bool, others: bool, told: int, tmp_path: Path
) -> None:
    story = Story()
    written(story)
    reads_of_a_member_elsewhere(story, keeps)
    if others:
        keeps_up(story.connect("10.1.0.3", client_id="second"), 12_300, 30_000)
    found = lags(story, tmp_path)
    assert len(found) == told
    if told:
        assert "has not fetched from topic orders since" in found[0].sentence


def test_the_time_is_told_at_which_a_reader_will_have_caught_up(tmp_path: Path) -> None:
    story = Story()
    reader = story.connect("10.1.0.2", client_id="late")
    for number in range(10):
        fetch(reader, 1_000 * number + 100, 400 * number, 8_000, records=400)
    (signal,) = lags(story, tmp_path, "lag_shrinks")
    assert signal.measures["per_second"] == 400
    assert "10.1.0.2 catches up with topic orders: from 7,600 to" in signal.sentence
    assert not lags(story, tmp_path)


def reads(story: Story, every_ms: int, until_ms: int) -> None:
    """Add a reader that takes all there is every so often until a time, and lives to the end."""
    reader = story.connect("10.1.0.2", client_id="reader")
    read = 0
    for at_ms in range(300, until_ms, every_ms):
        end = 25 * (at_ms // 500 + 1)
        fetch(reader, at_ms, read, end, records=end - read)
        read = end
    heartbeats(story.connect("10.1.0.2", client_id="reader"), 500, 60_000, "m", 1)


@pytest.mark.parametrize(("every_ms", "hangs"), [(1_000, True), (9_000, False)], ids=["hangs", "rests"])
def test_a_reader_that_hangs_late_falls_behind_from_then_on(
    every_ms: int, hangs: bool, tmp_path: Path
) -> None:
    """One that takes as long a rest between all of its reads does what it always does."""
    story = Story()
    written(story, 60)
    reads(story, every_ms, 38_000)
    found = lags(story, tmp_path)
    assert len(found) == hangs
    if hangs:
        assert found[0].begin_ns == pytest.approx((T0_MS + 37_300) * 10**6, abs=SECOND)
        assert "has not fetched from topic orders since" in found[0].sentence


def reads_two_partitions(story: Story, stops_ms: int, taken_over: bool = False) -> None:
    """Both partitions are written; a reader goes on with one of them only."""
    for partition in (0, 1):
        writer = story.connect(f"10.1.0.{8 + partition}", client_id=f"writer-{partition}")
        for number in range(60):
            produce(writer, 100 + 500 * number, count=10, offset=10 * number, partition=partition)
    reader = story.connect("10.1.0.2", client_id="paused")
    other = story.connect("10.1.0.3", client_id="other")
    for line, member in ((reader, "m"), (other, "o")):
        heartbeats(line, 500, 30_000, member, 1)
    for number in range(59):
        at_ms = 300 + 500 * number
        for partition in (0, 1):
            stopped = partition == 0 and at_ms > stops_ms
            line = other if stopped else reader
            if stopped and not taken_over:
                continue
            asked = {"partition": partition, "fetch_offset": 10 * number}
            found = {"partition_index": partition, "error_code": 0, "high_watermark": 10 * number + 10}
            found["records"] = batch(10 * number, 10)
            response = {"responses": [{"topic": "orders", "partitions": [found]}]}
            request = {"max_wait_ms": 500, "min_bytes": 1}
            request["topics"] = [{"topic": "orders", "partitions": [asked]}]
            line.call(at_ms + partition, 1, ApiKey.FETCH, 7, request, response)


@pytest.mark.parametrize(("other", "told"), [("", 1), ("other", 0)], ids=["left", "taken over"])
def test_a_partition_that_a_member_does_not_commit_any_more(other: str, told: int, tmp_path: Path) -> None:
    """Another broker serves its fetches, so the capture shows its commits only."""
    story = Story()
    for partition in (0, 1):
        writer = story.connect(f"10.1.0.{8 + partition}", client_id=f"writer-{partition}")
        for number in range(60):
            produce(writer, 100 + 500 * number, count=10, offset=10 * number, partition=partition)
    for at_ms in range(1_000, 30_000, 1_000):
        for partition in (0, 1):
            name = other if partition == 0 and at_ms > 10_000 else "member"
            if name:
                line = story.connect("10.1.0.2", client_id=name, at_ms=at_ms - 1)
                heartbeat(line, at_ms - 0.5, "m", 1)
                commit(line, at_ms, partition, at_ms // 50)
    found = lags(story, tmp_path)
    assert len(found) == told
    if told:
        assert "has not committed orders-0 since" in found[0].sentence
        assert "400 records behind there" in found[0].sentence


@pytest.mark.parametrize("member", [True, False])
def test_a_tool_that_sets_offsets_of_a_group_reads_nothing_slowly(member: bool, tmp_path: Path) -> None:
    """A mirror copies the offsets of groups of another cluster, whose members are there."""
    story = Story()
    writer, line = story.connect("10.1.0.8", client_id="writer"), story.connect("10.1.0.2", client_id="sets")
    for number in range(60):
        produce(writer, 100 + 500 * number, count=10, offset=10 * number)
    for at_ms in range(1_000, 30_000, 1_000):
        commit(line, at_ms, 0, at_ms // 100)
        if member:
            heartbeat(line, at_ms + 100, "m", 1)
    assert len(lags(story, tmp_path)) == member


def commit(line: Line, at_ms: float, partition: int, offset: int) -> None:
    own = {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}
    topics = [{"name": "orders", "partitions": [own]}]
    request = {"group_id": "readers", "generation_id_or_member_epoch": 1, "member_id": "m", "topics": topics}
    done = [{"name": "orders", "partitions": [{"partition_index": partition, "error_code": 0}]}]
    line.call(at_ms, 1, ApiKey.OFFSET_COMMIT, 3, request, {"topics": done})


def test_a_reader_that_leaves_one_partition_out_falls_behind_there(tmp_path: Path) -> None:
    story = Story()
    reads_two_partitions(story, 10_000)
    (signal,) = lags(story, tmp_path)
    assert "has not fetched from orders-0 since" in signal.sentence
    assert "while it goes on with other partitions of the topic: 400 records behind there" in signal.sentence
    assert signal.end_ns is None


@pytest.mark.parametrize(("stops_ms", "taken_over"), [(22_000, False), (10_000, True)])
def test_a_partition_that_rests_or_that_another_member_reads_is_not_left_out(
    stops_ms: int, taken_over: bool, tmp_path: Path
) -> None:
    story = Story()
    reads_two_partitions(story, stops_ms, taken_over)
    assert lags(story, tmp_path) == []
