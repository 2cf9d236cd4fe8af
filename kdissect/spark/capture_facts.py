"""What the survey and pass one found becomes the capture's facts in a report."""

from kdissect.capture.index.index import CaptureIndex
from kdissect.capture.segment_index import Counts
from kdissect.report.model.summary import CaptureFacts, Location

LINK_NAMES = {
    0: "loopback (BSD)",
    1: "Ethernet",
    12: "raw IP",
    14: "raw IP",
    101: "raw IP",
    108: "loopback (OpenBSD)",
    113: "Linux cooked",
    228: "raw IPv4",
    229: "raw IPv6",
    276: "Linux cooked 2",
    -1: "not described",
}
"""Names of link types (https://www.tcpdump.org/linktypes.html) that people meet; others keep their number."""


def link_names(survey: CaptureIndex) -> tuple[str, ...]:
    """Name the link types of all files."""
    kinds = sorted({kind for file in survey.files for kind in file.link_types})
    return tuple(dict.fromkeys(LINK_NAMES.get(kind, f"link type {kind}") for kind in kinds))


def _largest_step(survey: CaptureIndex) -> tuple[int, Location | None]:
    """Give how far the clock went back at most from one packet to the next, and where."""
    found = max(survey.files, key=lambda file: file.step_back.ns, default=None)
    if found is None or not found.step_back.ns:
        return 0, None
    nothing = dict.fromkeys(
        ("connection", "client_host", "client_port", "server_host", "server_port", "client_id", "topic", "partition", "detail")
    )  # fmt: skip
    place = Location(
        time_ns=found.step_back.at_ns, capture_file=found.file.name, request_packet=found.step_back.packet,
        response_packet=None, **nothing,
    )  # fmt: skip
    return found.step_back.ns, place


def capture_facts(survey: CaptureIndex, counts: Counts) -> CaptureFacts:
    """Put both together."""
    largest_step_ns, largest_step = _largest_step(survey)
    return CaptureFacts(
        files=tuple(file.file.name for file in survey.files),
        packets=survey.packets,
        bytes=survey.captured_bytes,
        first_time_ns=survey.earliest_time_ns,
        last_time_ns=survey.latest_time_ns,
        link_types=link_names(survey),
        tcp_packets=counts.tcp + counts.filtered,
        non_tcp_packets=counts.packets - counts.tcp - counts.filtered - counts.fragments,
        fragments=counts.fragments,
        malformed_packets=counts.malformed,
        unknown_link_packets=counts.unknown_link,
        tunnelled_packets=counts.tunnelled,
        attempts=counts.attempts,
        truncated_packets=survey.truncated_packets,
        dropped_packets=sum(file.interface_drops + file.system_drops for file in survey.files),
        clock_steps=sum(file.backward_steps for file in survey.files),
        largest_clock_step_ns=largest_step_ns,
        largest_clock_step=largest_step,
        warnings=survey.warnings,
    )
