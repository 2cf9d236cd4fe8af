"""The first lines: what is to be read, at once, and what the survey found, told while Spark is still starting."""

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # what follows is said before anything large is loaded
    from kdissect.capture.index.index import CaptureIndex, FileIndex

FILES_LISTED = 12


def line_before(paths: Sequence[str]) -> str:
    """Say what is going to be read; empty when that is not files, or not there."""
    sizes = [os.path.getsize(path) for path in paths if os.path.isfile(path)]
    if not sizes:
        return ""
    named = paths[0] if len(sizes) == 1 else f"{len(sizes)} captures"
    return f"reading {named}, {size(sum(sizes))}"


def lines_about(found: "CaptureIndex") -> Iterator[str]:
    """Give a line for each of the first files and, if there are several, one for all."""
    from kdissect.spark.capture_facts import link_names

    for file in found.files[:FILES_LISTED]:
        yield f"{file.file.name}: {_contents(file)}"
    if len(found.files) > FILES_LISTED:
        yield f"… and {len(found.files) - FILES_LISTED} more captures"
    if found.packets:
        yield (
            f"{found.packets:,} packets, {size(found.captured_bytes)}, {', '.join(link_names(found))}"
            f"{span(found.earliest_time_ns, found.latest_time_ns)}"
        )


def _contents(file: "FileIndex") -> str:
    if not file.packets:
        return f"{file.format}, no packets"
    cut = f", {file.truncated_packets:,} of them cut short by the capture" if file.truncated_packets else ""
    return f"{file.format}, {size(file.size)}, {file.packets:,} packets{cut}"


def size(count: int) -> str:
    """Write a number of bytes for people (powers of ten)."""
    for power, unit in ((9, "GB"), (6, "MB"), (3, "kB")):
        if count >= 10**power:
            return f"{count / 10**power:.1f} {unit}"
    return f"{count} bytes"


def span(first_ns: int | None, last_ns: int | None) -> str:
    """Write from when to when, in UTC, and how long that is."""
    if first_ns is None or last_ns is None:
        return ""
    first, last = (datetime.fromtimestamp(time // 10**9, UTC) for time in (first_ns, last_ns))
    until = f"{last:%H:%M:%S}" if first.date() == last.date() else f"{last:%Y-%m-%d %H:%M:%S}"
    return f", {first:%Y-%m-%d %H:%M:%S} to {until} UTC ({(last_ns - first_ns) / 1e9:,.1f} s)"
