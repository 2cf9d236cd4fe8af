"""The facts of a capture that a report begins with."""

from types import SimpleNamespace
from typing import Any

from kdissect.capture.packets.link_layer import LINK_TYPES
from kdissect.report.model.summary import CaptureFacts, CaptureGap
from kdissect.spark.capture_facts import MOST_GAPS, joined_gaps, link_names, merge_facts


def index(*kinds: frozenset[int]) -> Any:
    return SimpleNamespace(files=[SimpleNamespace(link_types=each) for each in kinds])


def test_every_link_type_that_is_read_has_its_name() -> None:
    for kind, link_type in LINK_TYPES.items():
        assert link_names(index(frozenset({kind}))) == (link_type.name,)


def test_link_types_that_are_not_read_keep_their_number() -> None:
    assert link_names(index(frozenset({147}))) == ("link type 147",)
    assert link_names(index(frozenset({-1, 1}))) == ("not described", "Ethernet")


def test_a_name_is_given_once() -> None:
    assert link_names(index(frozenset({12, 101}), frozenset({14, 113}))) == ("raw IP", "Linux cooked")


def test_what_was_skipped_counts_without_any_file() -> None:
    read = CaptureFacts(files=("one.pcap",), packets=5, first_time_ns=7, last_time_ns=9, dropped_packets=1)
    merged = merge_facts([read, CaptureFacts(dropped_packets=3), CaptureFacts()])
    assert (merged.dropped_packets, merged.packets) == (4, 5)
    assert (merged.first_time_ns, merged.last_time_ns, merged.files) == (7, 9, ("one.pcap",))


def gap(begin_s: float, end_s: float) -> CaptureGap:
    return CaptureGap(begin_ns=round(begin_s * 10**9), end_ns=round(end_s * 10**9), packets=1)


def test_gaps_that_are_near_each_other_are_one() -> None:
    merged = merge_facts(
        [
            CaptureFacts(gaps=(gap(7, 8), gap(1, 2)), dropped_packets=2),
            CaptureFacts(gaps=(gap(2.1, 3), gap(1.5, 1.6)), dropped_packets=2),
        ]
    )
    assert [(one.begin_ns, one.end_ns, one.packets) for one in merged.gaps] == [
        (10**9, 3 * 10**9, 3),
        (7 * 10**9, 8 * 10**9, 1),
    ]


def test_gaps_are_bounded() -> None:
    many = joined_gaps(gap(10 * number, 10 * number + 1 + number % 3) for number in range(3 * MOST_GAPS))
    assert 0 < len(many) <= MOST_GAPS
    assert sum(one.packets for one in many) == 3 * MOST_GAPS
