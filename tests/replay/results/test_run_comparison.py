"""The comparison from pairs that are written by hand: identity, errors, checks, verdict, files."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from kdissect.capture.inputs import InputError
from kdissect.errors import OutputError
from kdissect.replay.disposition import Unaccounted
from kdissect.replay.results.run_comparison import (
    compare,
    quantiles,
    without_noise,
)
from kdissect.replay.results.run_files import (
    read_run,
    write_run,
)
from kdissect.replay.results.run_page import page
from kdissect.replay.results.run_text import comparison_text

MS = 1_000_000


def run(captured: int, **more: Any) -> dict[str, Any]:
    plan = {
        "accounting": {"captured": captured},
        "capture": {"files": ["a.pcap"], "start_ns": 0},
        "target": {"cluster_id": "b"},
        "settings": {"pace": "schedule", "speed": 1.0, "groups": "off", "offsets": "auto", "tls": None},
        "names": {"topics": {"orders": "t-orders"}},
    }
    offsets = {"rules": {}, "clamped": 0}
    connections = {"opened": 1, "refused": 0, "closed_by_peer": 0}
    facts = {
        "format": 1,
        "id": "r",
        "kdissect": "0",
        "stopped": "",
        "plan": plan,
        "open_transactions": [],
        "offsets": offsets,
    }
    return facts | {"synthetic": {}, "connections": connections, "peak_in_flight": 1, "peak_lines": 1} | more


def pair(index: int, **more: Any) -> dict[str, Any]:
    """A Produce of one record that went well on both sides."""
    made = {
        "index": index,
        "connection": 1,
        "ordinal": index,
        "api_key": 0,
        "api": "Produce",
        "client_id": "c",
        "bucket": "answered",
        "reason": "",
        "rewrites": [],
        "speed": 1.0,
        "produced": [["t-orders-0", 1]],
        "captured": {
            "version": 9,
            "time_ns": 5,
            "service_ns": 2 * MS,
            "error": 0,
            "status": "answered",
            "request_bytes": 9,
            "request": None,
            "answer": None,
            "produced": {"orders-0": 1},
            "digest": [{"where": "orders-0", "error": 0, "offset": index}],
        },
        "sent": {
            "version": 9,
            "node": 1,
            "parts": 1,
            "bytes": 9,
            "due_ns": index * MS,
            "sent_ns": index * MS,
            "received_ns": index * MS + 3 * MS,
            "cause": "",
            "throttle_ms": 0,
        },
        "answers": [
            {
                "version": 9,
                "bytes": 9,
                "body": None,
                "digest": [{"where": "t-orders-0", "error": 0, "offset": index}],
            }
        ],
    }
    return made | more


def error(index: int, captured: int, replayed: int) -> dict[str, Any]:
    made = pair(index)
    digest = [{"where": "orders-0", "error": captured, "offset": index}]
    made["captured"] = made["captured"] | {"error": captured, "digest": digest}
    made["answers"] = [
        {
            "version": 9,
            "bytes": 9,
            "body": None,
            "digest": [{"where": "t-orders-0", "error": replayed, "offset": -1}],
        }
    ]
    return made


def test_what_went_well_passes() -> None:
    report = compare(run(3), [pair(0), pair(1), pair(2)])
    assert report["verdict"] == "pass"
    assert report["records"]["topics"] == [
        {"topic": "orders", "target": "t-orders", "captured": 3, "replayed": 3}
    ]
    assert report["latency"]["Produce v9"]["service_ms"]["p99"] == 3.0
    assert report["latency"]["Produce v9"]["captured_ms"]["p50"] == 2.0
    assert report["latency"]["Produce v9"]["p99_ratio"] == 1.5


def test_a_sum_that_does_not_come_out_is_no_report() -> None:
    with pytest.raises(Unaccounted, match="3 requests were captured, but 2"):
        compare(run(3), [pair(0), pair(1)])


def test_errors_are_new_vanished_mutated_or_the_same() -> None:
    report = compare(
        run(5), [error(0, 0, 10), error(1, 10, 0), error(2, 10, 87), error(3, 10, 10), error(4, 0, 6)]
    )
    found = {
        (each["captured"], each["replayed"]): (each["kind"], each["expected"]) for each in report["errors"]
    }
    assert found == {
        ("NONE", "MESSAGE_TOO_LARGE"): ("new", False),
        ("MESSAGE_TOO_LARGE", "NONE"): ("vanished", False),
        ("MESSAGE_TOO_LARGE", "INVALID_RECORD"): ("mutated", False),
        ("MESSAGE_TOO_LARGE", "MESSAGE_TOO_LARGE"): ("same", False),
        ("NONE", "NOT_LEADER_OR_FOLLOWER"): ("new", True),
    }
    assert report["verdict"] == "diverged"
    assert report["because"][2:] == [
        "1 records that the captured cluster acknowledged were not acknowledged: 1 of 2 of orders"
    ]


@pytest.mark.parametrize(
    ("bucket", "error_code", "verdict"),
    [
        ("answered", 3, "diverged"),
        ("dependency", None, "diverged"),
        ("version", None, "diverged"),
        ("policy", None, "pass"),
        ("retry", None, "pass"),
    ],
)
def test_records_that_were_not_written_are_missed_though_no_error_tells(
    bucket: str, error_code: int | None, verdict: str
) -> None:
    """Neither what is of the cluster nor what the replayer could not send may look like success."""
    lost = pair(1, bucket=bucket, sent=None, answers=[], reason="of one in a hundred")
    if error_code is not None:
        lost = error(1, 0, error_code)
    others = [pair(index, api="Heartbeat") for index in range(2, 100)]
    report = compare(run(100), [pair(0), lost, *others])
    assert report["verdict"] == verdict
    assert report["because"] == (
        ["1 records that the captured cluster acknowledged were not acknowledged: 1 of 2 of orders"]
        if verdict == "diverged"
        else []
    )


def test_what_one_partition_has_twice_does_not_stand_for_what_another_lacks() -> None:
    lost = pair(1, bucket="dependency", sent=None, answers=[], reason="of one in a hundred")
    lost["captured"] = lost["captured"] | {
        "produced": {"orders-1": 1},
        "digest": [{"where": "orders-1", "error": 0, "offset": 0}],
    }
    twice = pair(2)  # the captured cluster did not take this one
    twice["captured"] = twice["captured"] | {"digest": [{"where": "orders-0", "error": 6, "offset": -1}]}
    others = [pair(index, api="Heartbeat") for index in range(3, 100)]
    report = compare(run(100), [pair(0), lost, twice, *others])
    assert report["records"]["topics"][0]["replayed"] == report["records"]["topics"][0]["captured"] == 2
    assert report["because"] == [
        "1 records that the captured cluster acknowledged were not acknowledged: 1 of 2 of orders"
    ]


def test_success_that_wrote_nothing_is_found() -> None:
    swallowed = pair(1)
    swallowed["answers"] = [
        {"version": 9, "bytes": 9, "body": None, "digest": [{"where": "t-orders-0", "error": 0, "offset": 0}]}
    ]
    report = compare(run(2), [pair(0), swallowed])
    assert report["verdict"] == "diverged"
    assert report["because"] == [
        "1 acknowledged batches got an offset that was given before: nothing was written"
    ]


def test_empty_assignments_and_open_transactions_are_found() -> None:
    sync = pair(0, api="SyncGroup", api_key=14, produced=[])
    sync["captured"] = sync["captured"] | {"digest": [{"where": "", "error": 0, "assigned": 6}]}
    sync["answers"] = [
        {"version": 5, "bytes": 9, "body": None, "digest": [{"where": "", "error": 0, "assigned": 0}]}
    ]
    report = compare(run(1, open_transactions=["bank"]), [sync])
    assert [each["check"] for each in report["checks"] if not each["holds"]] == [
        "members have partitions",
        "no transaction is left open",
    ]


@pytest.mark.parametrize(
    ("api", "field", "check"),
    [
        ("ShareFetch", "acquired", "share members acquire records"),
        ("OffsetForLeaderEpoch", "known", "leader epochs have an end"),
    ],
)
def test_what_seldom_is_asked_is_checked_where_it_was(api: str, field: str, check: str) -> None:
    fetched = pair(0, api=api, produced=[])
    fetched["captured"] = fetched["captured"] | {"digest": [{"where": "t-0", "error": 0, field: 2}]}
    for found, holds in ((0, False), (1, True)):
        digest = [{"where": "t-0", "error": 0, field: found}]
        fetched["answers"] = [{"version": 2, "bytes": 9, "body": None, "digest": digest}]
        assert {each["check"]: each["holds"] for each in compare(run(1), [fetched])["checks"]}[check] is holds
    assert check not in {each["check"] for each in compare(run(1), [pair(0)])["checks"]}


def test_a_slow_replayer_cannot_pass() -> None:
    late = [pair(index) for index in range(10)]
    for each in late:
        each["sent"] = each["sent"] | {
            "sent_ns": each["sent"]["due_ns"] + 80 * MS,
            "received_ns": each["sent"]["due_ns"] + 90 * MS,
            "cause": "self",
        }
    report = compare(run(10), late)
    assert report["verdict"] == "invalid"
    assert report["latency"]["Produce v9"]["response_ms"]["p50"] == 90.0
    assert report["latency"]["Produce v9"]["service_ms"]["p50"] == 10.0
    for each in late:
        each["sent"]["cause"] = "in-flight cap"
    assert compare(run(10), late)["verdict"] == "pass"
    assert compare(run(1, stopped="interrupted"), [pair(0)])["because"] == ["incomplete: interrupted"]


def test_what_could_mostly_not_be_sent_is_no_comparison() -> None:
    for bucket, verdict in (("policy", "pass"), ("headless", "invalid")):
        unsent = pair(2, bucket=bucket, reason="a topic id has no name in the capture", sent=None, answers=[])
        report = compare(run(3), [pair(0), pair(1), unsent])
        assert report["verdict"] == verdict
    assert report["because"] == [
        "1 of 3 requests to be sent could not be: a topic id has no name in the capture"
    ]


def test_a_second_run_is_the_noise() -> None:
    report = compare(run(2), [pair(0), error(1, 0, 10)])
    without_noise(report, compare(run(2), [pair(0), error(1, 0, 10)]))
    assert report["verdict"] == "pass"
    quiet = compare(run(2), [pair(0), error(1, 0, 10)])
    without_noise(quiet, compare(run(2), [pair(0), pair(1)]))
    assert quiet["verdict"] == "diverged"


def test_quantiles_are_nearest_rank() -> None:
    assert quantiles([]) is None
    assert quantiles([number * MS for number in range(1, 101)]) == {
        "p50": 50.0,
        "p90": 90.0,
        "p99": 99.0,
        "p99.9": 100.0,
        "max": 100.0,
    }


def late(index: int, due_ms: int, lag_ms: int, service_ms: int | None) -> dict[str, Any]:
    """A request that was due and sent at some time, and answered after some time, or never."""
    made = pair(index)
    sent_ns = (due_ms + lag_ms) * MS
    received = None if service_ms is None else sent_ns + service_ms * MS
    made["sent"] |= {
        "due_ns": due_ms * MS,
        "sent_ns": sent_ns,
        "received_ns": received,
        "cause": "self" if lag_ms else "",
    }
    return made


def test_the_course_tells_what_was_due_sent_and_answered_when() -> None:
    pairs = [late(0, 0, 0, 3), late(1, 1, 0, 4), late(2, 2, 5, 1), late(3, 9, 0, None), late(4, 119, 0, 2)]
    course = compare(run(5), pairs)["course"]
    assert course["step_ms"] == 1
    assert [at for at, count in enumerate(course["due"]) if count] == [0, 1, 2, 9, 119]
    assert [at for at, count in enumerate(course["sent"]) if count] == [0, 1, 7, 9, 119]
    assert [course["response_p99_ms"][at] for at in (0, 1, 2, 3, 9)] == [3, 4, 6, None, None]
    assert [course["captured_p99_ms"][at] for at in (0, 1, 2, 3, 9)] == [2, 2, 2, None, None]
    assert [course["lag_max_ms"][at] for at in (0, 1, 2, 3, 9)] == [0, 0, 5, None, 0]


def test_the_course_has_few_steps_however_long_a_run_is() -> None:
    day_ms = 86_400_000
    course = compare(run(1_000), [late(each, each * day_ms // 1_000, 0, 1) for each in range(1_000)])[
        "course"
    ]
    assert course["step_ms"] == 1_000_000
    assert sum(course["due"]) == sum(course["sent"]) == 1_000
    assert len(course["due"]) == len(course["lag_max_ms"]) == 87


@pytest.mark.parametrize("count", [0, 1, 300])
def test_the_course_is_drawn_as_it_was(count: int) -> None:
    made = page(compare(run(count), [late(each, each, each % 7, 1 + each) for each in range(count)]))
    drawn = [ET.fromstring(each) for each in re.findall(r"<svg .*?</svg>", made)]
    planes = [each for each in drawn if each.get("preserveAspectRatio")]
    assert len(planes) == (3 if count else 0)
    for plane, parts in zip(planes, (2, 2, 1), strict=False):
        assert len(plane.findall("path")) == parts
        steps = int(plane.get("viewBox", "").split()[2])
        for path in plane.findall("path"):
            numbers = [float(each) for each in re.findall(r"-?[\d.]+", path.get("d", ""))]
            assert all(-1000 <= each <= max(1000, steps) for each in numbers)
    assert ("+0s" in made) == bool(count)


def test_a_run_is_written_whole_private_and_once(tmp_path: Path) -> None:
    place = tmp_path / "runs" / "one"
    write_run(place, run(1), [json.dumps(pair(0))])
    assert {path.name: path.stat().st_mode & 0o777 for path in place.iterdir()} == {
        "run.json": 0o600,
        "pairs.jsonl": 0o600,
    }
    summary, pairs = read_run(place)
    assert compare(summary, pairs)["verdict"] == "pass"
    with pytest.raises(OutputError):
        write_run(place, run(1), [])

    def failing() -> Any:
        yield "{}"
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_run(tmp_path / "runs" / "two", run(1), failing())
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["one"]
    with pytest.raises(InputError):
        read_run(tmp_path)


def test_nothing_from_outside_reaches_terminal_or_page_raw() -> None:
    evil = "\x1b[31m<script>alert(1)</script>\u202e"
    bad = error(0, 0, 10)
    bad["answers"][0]["digest"][0]["where"] = evil
    skipped = pair(1, bucket="policy", reason=evil, sent=None, answers=[])
    report = compare(run(2, id=evil), [bad, skipped])
    for text in ("\n".join(comparison_text(report)), page(report)):
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert "<script>" not in page(report)
