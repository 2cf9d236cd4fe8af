"""Events of groups: by group and client, in the order of time."""

from pathlib import Path

from kdissect.report.signals.group_events import asked_ns, is_join, session_ms
from tests.helpers.told_capture import Story
from tests.helpers.told_groups import SESSION_MS, analyzed, heartbeats, join, leave

ROW = {"event": "join", "error_code": 0, "asked_ns": None, "time_ns": 7, "session_timeout_ms": 6000}


def test_a_join_that_is_refused_is_none() -> None:
    assert is_join(ROW)
    assert not is_join(ROW | {"error_code": 79})
    assert not is_join(ROW | {"event": "leave"})


def test_an_event_without_a_request_has_the_time_of_its_response() -> None:
    assert (asked_ns(ROW), asked_ns(ROW | {"asked_ns": 5})) == (7, 5)


def test_the_longest_session_timeout_counts_and_none_is_none() -> None:
    assert session_ms([ROW, ROW | {"session_timeout_ms": None}]) == SESSION_MS
    assert session_ms([ROW | {"session_timeout_ms": None}]) is None
    assert session_ms([]) is None


def test_a_signal_about_a_member_touches_its_group_and_has_both_packets(tmp_path: Path) -> None:
    story = Story()
    for number, host in enumerate(("10.1.0.2", "10.1.0.3")):
        line = story.connect(host, client_id=f"member-{number}")
        join(line, 10, f"m-{number}", 1)
        heartbeats(line, 100, 5_000, f"m-{number}", 1)
        if not number:
            leave(line, 5_000, "m-0")
            join(line, 7_000, "m-2", 2)
    (signal,) = (one for one in analyzed(story, tmp_path).signals if one.kind == "poll_exceeded")
    assert signal.clients == ("member-0 at 10.1.0.2", "member-1 at 10.1.0.3")
    assert signal.groups == ("readers",)
    place = signal.evidence[0].place
    assert place is not None
    assert None not in (place.request_packet, place.response_packet)
