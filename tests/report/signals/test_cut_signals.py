"""Captures of cut packets tell who joins, or asks for topics, again and again, though not why."""

import struct
from pathlib import Path

import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.report.model.findings import Severity
from kdissect.report.model.incidents import Incident
from tests.helpers.told_capture import Story
from tests.helpers.told_groups import analyzed, background, fetch, join, leave, produce

KEPT = 96
FILE_HEADER, PACKET_HEADER = 24, struct.Struct("<IIII")
MEMBER = "search-api-with-a-long-name-1"
"""A client id of 29 bytes: of its requests the header is there, as far as 28 bytes of this."""


class CutStory(Story):
    """A story of which the capture has the first bytes of each packet only."""

    def write(self, path: Path) -> str:
        super().write(path)
        whole = path.read_bytes()
        kept, at = [whole[:FILE_HEADER]], FILE_HEADER
        while at < len(whole):
            seconds, micros, captured, length = PACKET_HEADER.unpack_from(whole, at)
            at += PACKET_HEADER.size
            kept += [
                PACKET_HEADER.pack(seconds, micros, min(captured, KEPT), length),
                whole[at : at + min(captured, KEPT)],
            ]
            at += captured
        path.write_bytes(b"".join(kept))
        return str(path)


def incidents(story: Story, tmp_path: Path) -> list[Incident]:
    background(story)
    return list(analyzed(story, tmp_path).incidents)


def joining(rounds: int, story: Story) -> Story:
    for number in range(rounds):
        line = story.connect("10.1.0.2", client_id=MEMBER, at_ms=3_990 + 3_000 * number)
        join(line, 4_000 + 3_000 * number, f"member-{number}", 1 + number)
    return story


@pytest.mark.parametrize(("rounds", "told"), [(7, ["joins_unread"]), (4, [])])
def test_members_that_join_again_and_again(rounds: int, told: list[str], tmp_path: Path) -> None:
    found = incidents(joining(rounds, CutStory()), tmp_path)
    assert [one.cause for one in found] == told
    if told:
        assert found[0].headline.startswith(
            f"{MEMBER[:28]} at 10.1.0.2 joined a group at 10.0.0.1:9092 again"
        )


def test_members_whose_messages_are_there_have_other_signals(tmp_path: Path) -> None:
    assert "joins_unread" not in [one.cause for one in incidents(joining(7, Story()), tmp_path)]


def leaving(story: Story, same_connection: bool) -> Story:
    """A member that leaves and joins again three seconds later, two times, and then is gone."""
    line = story.connect("10.1.0.2", client_id=MEMBER, at_ms=3_990)
    for begin_ms in (4_000, 12_000, 20_000):
        if begin_ms > 4_000 and not same_connection:
            line.close(begin_ms - 2_990)
            line = story.connect("10.1.0.2", client_id=MEMBER, at_ms=begin_ms - 10)
        join(line, begin_ms, "member", 1)
        leave(line, begin_ms + 5_000, "member")
    return story


def test_a_member_that_leaves_and_joins_again_on_its_connection_was_too_slow(tmp_path: Path) -> None:
    (incident,) = incidents(leaving(CutStory(), same_connection=True), tmp_path)
    assert incident.cause == "slow_consumer"
    assert "it left its group (the name was cut) 2 times" in incident.headline


def test_a_member_that_leaves_and_is_started_again_was_not_too_slow(tmp_path: Path) -> None:
    assert incidents(leaving(CutStory(), same_connection=False), tmp_path) == []


@pytest.mark.parametrize(("fetches_ms", "told"), [(25, []), (500, ["commit_storm"])])
def test_a_reader_that_commits_after_each_fetch_is_no_storm(
    fetches_ms: int, told: list[str], tmp_path: Path
) -> None:
    """Nobody can tell which of its fetches brought records."""
    story = CutStory()
    line = story.connect("10.1.0.2", client_id="reader", at_ms=1_000)
    for at_ms in range(1_100, 20_000, 23):
        commit = {"group_id": "readers", "generation_id_or_member_epoch": 1, "member_id": "m", "topics": []}
        line.call(at_ms, 1, ApiKey.OFFSET_COMMIT, 3, commit, {"topics": []})
    reads = story.connect("10.1.0.2", client_id="reader", at_ms=1_000)
    for at_ms in range(1_100, 20_000, fetches_ms):
        fetch(reads, at_ms, at_ms, at_ms + 9)
    assert [one.cause for one in incidents(story, tmp_path) if one.severity is not Severity.NOTE] == told


def asking(topics: list[str], works: bool = False, story: Story | None = None) -> Story:
    """A client that asks for metadata each second, of topics or of all that there are."""
    story = story or CutStory()
    line = story.connect("10.1.0.2", client_id="asker", at_ms=9_990)
    named = [{"topic_id": bytes(16), "name": topic} for topic in topics] or None
    node = {"node_id": 1, "host": "broker-one.example.org", "port": 9092, "rack": None}
    response = {"brokers": [node], "controller_id": 1, "topics": [], "cluster_id": "cluster-of-the-story"}
    for number in range(9):
        line.call(10_000 + 1_000 * number, 1, ApiKey.METADATA, 12, {"topics": named}, response)
    if works:
        produce(line, 20_000)
    return story


@pytest.mark.parametrize(
    ("topics", "works", "told"),
    [(["payments"], False, ["answers_unread"]), (["payments"], True, []), ([], False, [])],
)
def test_a_client_that_asks_for_topics_and_begins_no_work(
    topics: list[str], works: bool, told: list[str], tmp_path: Path
) -> None:
    assert [one.cause for one in incidents(asking(topics, works), tmp_path)] == told


class DamagedStory(Story):
    """A story in which the name of a topic is longer than its message."""

    def write(self, path: Path) -> str:
        super().write(path)
        path.write_bytes(path.read_bytes().replace(b"\x09payments", b"\x7fpayments"))
        return str(path)


def test_messages_that_cannot_be_read_were_not_cut(tmp_path: Path) -> None:
    story = asking(["payments"], story=DamagedStory())
    assert "answers_unread" not in [one.cause for one in incidents(story, tmp_path)]
