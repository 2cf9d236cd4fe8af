"""Incidents without a known cause, and captures that only look like them."""

from pathlib import Path

import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import encode_response
from kdissect.report.incidents.cause import Case, Diagnosis, SignalIndex
from kdissect.report.incidents.symptom_causes import latency_changed
from kdissect.report.model.findings import Severity
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.make_signal import make_signal
from tests.helpers.segment_wire import frame
from tests.helpers.told_capture import Line
from tests.helpers.told_cluster import cluster
from tests.helpers.told_groups import SESSION_MS, analyzed

LENGTH_MS, SECOND = 30_000, 10**9


@pytest.mark.parametrize(
    ("waited_ms", "found"), [(9_000, ["requests_unanswered"]), (1_500, [])], ids=["hangs", "just sent"]
)
def test_a_request_without_a_response_at_the_end(waited_ms: int, found: list[str], tmp_path: Path) -> None:
    story, _ = cluster(lambda node, at_ms: 3)
    admin = story.connect("10.1.0.9", ("10.0.0.2", 9092), client_id="admin")
    admin.call(100, 3, ApiKey.FIND_COORDINATOR, 1, {"key": "g"}, {"node_id": 1, "host": "10.0.0.1"})
    admin.ask(LENGTH_MS - waited_ms, ApiKey.DELETE_TOPICS, 1, {"topic_names": ["old"], "timeout_ms": 60_000})
    assert [one.cause for one in analyzed(story, tmp_path).incidents] == found


def test_a_request_that_later_ones_overtake_only_lacks_its_response(tmp_path: Path) -> None:
    """A broker answers a connection in order: the capture lacks the response, or began within the request."""
    story, _ = cluster(lambda node, at_ms: 3)
    admin = story.connect("10.1.0.9", ("10.0.0.2", 9092), client_id="admin")
    admin.ask(100, ApiKey.DELETE_TOPICS, 1, {"topic_names": ["old"], "timeout_ms": 60_000})
    for at_ms in range(1_000, 29_000, 1_000):
        admin.call(at_ms, 3, ApiKey.FIND_COORDINATOR, 1, {"key": "g"}, {"node_id": 1, "host": "10.0.0.1"})
    assert analyzed(story, tmp_path).incidents == ()


@pytest.mark.parametrize("api", [ApiKey.FETCH, ApiKey.JOIN_GROUP])
def test_requests_that_wait_by_design_are_not_unanswered(api: ApiKey, tmp_path: Path) -> None:
    story, _ = cluster(lambda node, at_ms: 3)
    waits = story.connect("10.1.0.9", ("10.0.0.2", 9092), client_id="waits")
    if api is ApiKey.FETCH:
        waits.ask(LENGTH_MS - 9_000, api, 7, {"max_wait_ms": 60_000, "min_bytes": 1, "topics": []})
    else:
        join = {"group_id": "readers", "session_timeout_ms": SESSION_MS, "rebalance_timeout_ms": 60_000}
        waits.ask(
            LENGTH_MS - 9_000, api, 5, join | {"member_id": "", "protocol_type": "consumer", "protocols": []}
        )
    assert analyzed(story, tmp_path).incidents == ()


def crawling(line: Line, at_ms: float, took_ms: float) -> None:
    """Ask for metadata; the response has two packets, which lie apart."""
    number = line.ask(at_ms, ApiKey.METADATA, 1, {"topics": []})
    topics = [{"error_code": 0, "name": f"topic-{n}", "partitions": []} for n in range(60)]
    body = {"brokers": [], "controller_id": 1, "topics": topics}
    response = frame(encode_response(ApiKey.METADATA, 1, {"correlation_id": number}, body))
    line.send(at_ms + 1, False, response[:400])
    line.send(at_ms + 1 + took_ms, False, response[400:])


@pytest.mark.parametrize(("took_ms", "found"), [(590, ["slow_responses"]), (20, [])], ids=["slow", "quick"])
def test_responses_that_need_long_from_their_first_byte_to_their_last(
    took_ms: float, found: list[str], tmp_path: Path
) -> None:
    story, _ = cluster(lambda node, at_ms: 3)
    line = story.connect("10.1.0.9", ("10.0.0.2", 9092), client_id="reads-slowly")
    for at_ms in range(2_000, 25_000, 2_500):
        crawling(line, at_ms, took_ms)
    incidents = analyzed(story, tmp_path).incidents
    assert [one.cause for one in incidents] == found
    assert not found or "reads-slowly at 10.1.0.9" in incidents[0].headline
    assert not found or "590ms each from the first to the last byte" in incidents[0].headline


def rise_of_a_client(**more: int) -> Signal:
    """Return latency of a client that went from 3 to 32 ms, and stays there."""
    measures = {"before_ns": 3_000_000, "after_ns": 32_000_000, "times_1000": 0, "rival_times_1000": 1001}
    measures |= {"requests_per_1000_s_before": 15_000, "requests_per_1000_s_after": 15_000}
    measures |= {"api_key": ApiKey.PRODUCE, "rose": 3, "present": 3}
    subject = (SubjectKind.CLIENT, "importer at 10.1.0.8")
    return make_signal("client_latency_rose", subject, (10 * SECOND, None), "…", measures=measures | more)


def judged(rose: Signal, *others: Signal) -> Diagnosis | None:
    return latency_changed(Case(rose, SignalIndex((rose, *others)), (0, 30 * SECOND)))


@pytest.mark.parametrize(("after", "told"), [(14_000, True), (600, False)], ids=["goes on", "has ended"])
def test_the_last_requests_of_a_client_are_no_new_level(after: int, told: bool) -> None:
    assert (judged(rise_of_a_client(requests_per_1000_s_after=after)) is not None) == told


def test_a_client_that_sends_far_more_makes_its_requests_slow():
    plain, busier = judged(rise_of_a_client()), judged(rise_of_a_client(requests_per_1000_s_after=60_000))
    assert (plain.severity, busier.severity) == (None, Severity.NOTE)
    assert plain.headline.endswith("and nothing in the capture shows why")
    assert busier.headline.endswith(
        "importer at 10.1.0.8 sent 60 requests a second in place of 15 since then"
    )


@pytest.mark.parametrize(
    ("kind", "measures", "doubt"),
    [
        ("server_silent", {"silent_ns": 1_200_000_000}, "broker 2 sent nothing for 1.20s meanwhile"),
        (
            "latency_rose",
            {"reaction_after_ns": 9_000_000, "rival_reaction_after_ns": 8_000_000},
            "all brokers took long between replica fetches, as on a busy host",
        ),
    ],
)
def test_latency_on_a_busy_host_is_a_note(kind: str, measures: dict[str, int], doubt: str) -> None:
    levels = {"before_ns": 5_000_000, "after_ns": 9_000_000, "times_1000": 0, "rival_times_1000": 0}
    broker, span = (SubjectKind.SERVER, "broker 2"), (11 * SECOND, 13 * SECOND)
    diagnosis = judged(rise_of_a_client(), make_signal(kind, broker, span, "…", measures=levels | measures))
    assert (diagnosis.severity, diagnosis.speaks_against[1:]) == (Severity.NOTE, (doubt,))


@pytest.mark.parametrize(("grown", "is_note"), [((1, 2), True), ((1,), False)], ids=["all", "one of two"])
def test_brokers_that_get_more_requests_have_a_reason_to_be_slower(
    grown: tuple[int, ...], is_note: bool
) -> None:
    span = (10 * SECOND, None)
    measures = rise_of_a_client().measures
    rises = [
        make_signal("latency_rose", (SubjectKind.SERVER, f"broker {node}"), span, "…", measures=measures)
        for node in (1, 2)
    ]
    loads = [
        make_signal(
            "load_grew",
            (SubjectKind.SERVER, f"broker {node}"),
            span,
            "…",
            measures={"per_1000_s_before": 10_000, "per_1000_s_after": 40_000},
            clients=["stream at 10.1.0.8"],
        )
        for node in grown
    ]
    diagnosis = judged(*rises, *loads)
    assert diagnosis is not None
    assert (diagnosis.severity is Severity.NOTE) == is_note
    if is_note:
        assert diagnosis.headline.endswith(
            "80 requests a second came in place of 20 since then, most of them from stream at 10.1.0.8"
        )
