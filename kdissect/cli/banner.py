"""The first lines on standard error.

It shows the captures and what their index holds, while Spark starts.
"""

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kdissect.text import format_size, plural

if TYPE_CHECKING:  # nothing large is loaded before the first line is written
    from kdissect.capture.index.index import CaptureIndex, FileIndex

FILES_LISTED = 12


def reading_line(paths: Sequence[str]) -> str:
    """Return which captures are read, and their size; empty if the paths are not files."""
    sizes = [os.path.getsize(path) for path in paths if os.path.isfile(path)]
    if not sizes:
        return ""
    named = paths[0] if len(sizes) == 1 else f"{len(sizes)} captures"
    return f"reading {named}, {format_size(sum(sizes))}"


def index_lines(found: "CaptureIndex") -> Iterator[str]:
    """Return a line for each of the first files and one for all captures together."""
    from kdissect.spark.capture_facts import link_names

    for file in found.files[:FILES_LISTED]:
        yield f"{file.file.name}: {_contents(file)}"
    left = len(found.files) - FILES_LISTED
    if left > 0:
        yield f"… and {left} more {plural('capture', left)}"
    if found.packets:
        yield (
            f"{found.packets:,} {plural('packet', found.packets)}, {format_size(found.captured_bytes)}, "
            f"{', '.join(link_names(found))}"
            f"{span(found.earliest_time_ns, found.latest_time_ns)}"
        )


def _contents(file: "FileIndex") -> str:
    if not file.packets:
        return f"{file.format}, no packets"
    cut = f", {file.truncated_packets:,} of them cut short by the capture" if file.truncated_packets else ""
    packets = f"{file.packets:,} {plural('packet', file.packets)}"
    return f"{file.format}, {format_size(file.size)}, {packets}{cut}"


def span(first_ns: int | None, last_ns: int | None) -> str:
    """Return the time of the first and last packet in UTC, and the seconds between."""
    if first_ns is None or last_ns is None:
        return ""
    first, last = (datetime.fromtimestamp(time // 10**9, UTC) for time in (first_ns, last_ns))
    until = f"{last:%H:%M:%S}" if first.date() == last.date() else f"{last:%Y-%m-%d %H:%M:%S}"
    return f", {first:%Y-%m-%d %H:%M:%S} to {until} UTC ({(last_ns - first_ns) / 1e9:,.1f} s)"
