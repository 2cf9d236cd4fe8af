"""Records that a share group gives back: again and again, or once since a member ends."""

from pathlib import Path

from kdissect.report.model.incidents import Signal, SubjectKind
from tests.helpers.told_capture import Story
from tests.helpers.told_groups import analyzed
from tests.helpers.told_shares import ACCEPTED, REFUSED, RELEASED, name_topic, share_fetch, takes_records


def given_back(story: Story, tmp_path: Path) -> list[Signal]:
    return [one for one in analyzed(story, tmp_path).signals if one.kind == "records_given_back"]


def test_a_member_that_gives_everything_back_is_named_with_its_group_and_topic(tmp_path: Path) -> None:
    story = Story()
    takes_records(story.connect("10.1.0.2", client_id="failing"), types=(RELEASED,), deliveries=5)
    (signal,) = given_back(story, tmp_path)
    assert signal.subject.name == "failing at 10.1.0.2"
    assert (signal.groups, signal.topics, signal.end_ns) == (("queue",), ("orders",), None)
    assert (signal.measures["count"], signal.measures["accepted"], signal.requests) == (40, 0, 20)
    assert "gives back records of orders-0 again and again" in signal.sentence
    assert "the group accepts none; one record is delivered up to 5 times" in signal.sentence
    (evidence,) = signal.evidence
    assert evidence.place is not None
    assert evidence.place.client_host == "10.1.0.2"


def test_members_of_one_group_are_one_signal(tmp_path: Path) -> None:
    story = Story()
    for number in (2, 3):
        line = story.connect(f"10.1.0.{number}", client_id=f"failing-{number}")
        takes_records(line, types=(RELEASED,), deliveries=3)
    (signal,) = given_back(story, tmp_path)
    assert (signal.subject.kind, signal.subject.name) == (SubjectKind.GROUP, "queue")
    assert len(signal.clients) == 2
    assert "give back records" in signal.sentence


def test_some_records_that_fail_among_many_that_do_not_are_told(tmp_path: Path) -> None:
    story = Story()
    line = story.connect("10.1.0.2", client_id="failing")
    takes_records(line, types=(ACCEPTED, RELEASED), deliveries=5)
    (signal,) = given_back(story, tmp_path)
    assert (signal.measures["count"], signal.measures["accepted"]) == (20, 20)
    assert "while the group accepts 20;" in signal.sentence


def test_a_member_that_ends_gives_back_what_it_has_once(tmp_path: Path) -> None:
    story = Story()
    line = story.connect("10.1.0.2", client_id="ending")
    takes_records(line, times=10)
    share_fetch(line, 6_000, decided=[((20, 519), (RELEASED,))])
    takes_records(story.connect("10.1.0.3", client_id="next"), deliveries=2, begin_ms=7_000)
    assert given_back(story, tmp_path) == []


def test_restarts_that_never_meet_the_same_record_are_quiet(tmp_path: Path) -> None:
    story = Story()
    takes_records(story.connect("10.1.0.2", client_id="restarted"), types=(RELEASED,), deliveries=2)
    assert given_back(story, tmp_path) == []


def test_records_that_are_refused_for_good_are_told_if_they_are_most(tmp_path: Path) -> None:
    story = Story()
    takes_records(story.connect("10.1.0.2", client_id="refusing"), types=(REFUSED,))
    (signal,) = given_back(story, tmp_path)
    assert "refuses records of orders-0 for good since" in signal.sentence


def test_a_few_refused_records_are_what_the_type_is_for(tmp_path: Path) -> None:
    story = Story()
    line = story.connect("10.1.0.2", client_id="sound")
    name_topic(line, 5)
    for number in range(20):
        types = (ACCEPTED,) * 4 + (REFUSED,)
        share_fetch(line, 100 + 500 * number, decided=[((5 * number, 5 * number + 4), types)])
    assert given_back(story, tmp_path) == []
