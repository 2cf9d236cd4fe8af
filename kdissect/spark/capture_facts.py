"""The facts of a capture in a report, from its index and the counts of pass one."""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from itertools import chain
from typing import Any

from kdissect.capture.index.index import CaptureIndex
from kdissect.capture.packets.link_layer import LINK_TYPES
from kdissect.capture.segment_index import Counts
from kdissect.report.model.findings import Location
from kdissect.report.model.summary import CaptureFacts, CaptureGap

NOT_DESCRIBED = -1
"""The link type of a packet whose interface the capture file does not describe."""


def link_names(index: CaptureIndex) -> tuple[str, ...]:
    """Return the names of the link types of all files, each name once."""
    kinds = sorted({kind for file in index.files for kind in file.link_types})
    return tuple(dict.fromkeys(_link_name(kind) for kind in kinds))


def _link_name(kind: int) -> str:
    if kind == NOT_DESCRIBED:
        return "not described"
    return LINK_TYPES[kind].name if kind in LINK_TYPES else f"link type {kind}"


def _largest_step(index: CaptureIndex) -> tuple[int, Location | None]:
    """Return the largest step back of the clock between two packets in nanoseconds, and where it is."""
    file = max(index.files, key=lambda one: one.step_back.ns, default=None)
    if file is None or not file.step_back.ns:
        return 0, None
    others = ("connection", "client_host", "client_port", "server_host", "server_port", "client_id", "topic")
    nothing = dict.fromkeys((*others, "partition", "detail"))
    place = Location(
        time_ns=file.step_back.at_ns, capture_file=file.file.name, request_packet=file.step_back.packet,
        response_packet=None, **nothing,
    )  # fmt: skip
    return file.step_back.ns, place


def capture_facts(index: CaptureIndex, counts: Counts) -> CaptureFacts:
    """Return the facts of a capture."""
    largest_step_ns, largest_step = _largest_step(index)
    return CaptureFacts(
        files=tuple(file.file.name for file in index.files),
        packets=index.packets,
        bytes=index.captured_bytes,
        first_time_ns=index.earliest_time_ns,
        last_time_ns=index.latest_time_ns,
        link_types=link_names(index),
        tcp_packets=counts.tcp + counts.filtered,
        non_tcp_packets=counts.packets - counts.tcp - counts.filtered - counts.fragments,
        fragments=counts.fragments,
        malformed_packets=counts.malformed,
        unknown_link_packets=counts.unknown_link,
        tunnelled_packets=counts.tunnelled,
        attempts=counts.attempts,
        truncated_packets=index.truncated_packets,
        dropped_packets=sum(file.interface_drops + file.system_drops for file in index.files),
        clock_steps=sum(file.backward_steps for file in index.files),
        largest_clock_step_ns=largest_step_ns,
        largest_clock_step=largest_step,
        warnings=index.warnings,
    )


def joined_gaps(gaps: Iterable[CaptureGap]) -> tuple[CaptureGap, ...]:
    """Return gaps in the order of time; those that lie near each other are one.

    The nearest of too many are joined, too.
    """
    near_ns = NEAR_NS
    found = _joined(sorted(gaps, key=_begin), near_ns)
    while len(found) > MOST_GAPS:
        near_ns *= 2
        found = _joined(found, near_ns)
    return tuple(found)


def _begin(gap: CaptureGap) -> int:
    return gap.begin_ns


def _joined(gaps: Iterable[CaptureGap], near_ns: int) -> list[CaptureGap]:
    """Return gaps of which one that begins near the end of the one before is joined with it."""
    found: list[CaptureGap] = []
    for gap in gaps:
        if found and gap.begin_ns <= found[-1].end_ns + near_ns:
            last = found.pop()
            end_ns, packets = max(last.end_ns, gap.end_ns), last.packets + gap.packets
            gap = CaptureGap(begin_ns=last.begin_ns, end_ns=end_ns, packets=packets)
        found.append(gap)
    return found


LARGEST = ("largest_clock_step_ns", "largest_clock_step")
TEXTS = ("files", "link_types", "warnings")
MOST_GAPS, NEAR_NS = 1_000, 500_000_000


def merge_facts(facts: Sequence[CaptureFacts]) -> CaptureFacts:
    """Return the facts of several captures as those of one; counts are added up."""
    seen = [one for one in facts if one.files or one.dropped_packets]
    largest = max(seen, key=lambda one: one.largest_clock_step_ns, default=CaptureFacts())
    times: dict[str, Any] = {
        "first_time_ns": min(
            (one.first_time_ns for one in seen if one.first_time_ns is not None), default=None
        ),
        "last_time_ns": max((one.last_time_ns for one in seen if one.last_time_ns is not None), default=None),
        **{name: getattr(largest, name) for name in LARGEST},
    }
    times["gaps"] = joined_gaps(chain(*(one.gaps for one in seen)))
    texts: dict[str, Any] = {
        name: tuple(dict.fromkeys(chain(*(getattr(one, name) for one in seen)))) for name in TEXTS
    }
    counts: dict[str, Any] = {
        field.name: sum(getattr(one, field.name) for one in seen)
        for field in fields(CaptureFacts)
        if field.name not in times and field.name not in texts
    }
    return CaptureFacts(**counts, **times, **texts)
