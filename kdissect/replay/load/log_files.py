"""A replay log on disk: all requests of some captures in their order, for every plan and run that follows.

    log.json           what the captures are, and what they tell as a whole (`LogFacts`)
    requests.parquet   a row for each request, in time order (`REQUESTS`)
    *.frames           the bytes of frames that no capture has in one piece: reassembled, decrypted, unpacked

A row says where its frames lie: the number of a file, an offset and a size. The captures are the first
files, the files of frames follow. So a log is valid as long as its captures stay as they are, which
`open_log` checks. A log may hold decrypted traffic: it is readable by its owner only.
"""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from kdissect.errors import UsageError

FORMAT = 2
FACTS, ROWS, FRAMES = "log.json", "requests.parquet", ".frames"
NOWHERE = -1  # as the file of a frame: there is no such frame
UNKNOWN_NS = -1

REQUESTS = pa.schema(
    [
        pa.field(name, kind, nullable=False)
        for name, kind in {
            "first_ns": pa.int64(),
            "packet": pa.int64(),  # that brought the first byte: split << PACKET_BITS | number in its file
            "connection": pa.int64(),  # the public number
            "ordinal": pa.int32(),
            "key": pa.int16(),
            "version": pa.int16(),  # BEFORE_VERSIONS: Kafka 0.7
            "status": pa.int8(),  # place in STATUS_NAMES
            "last_ns": pa.int64(),  # UNKNOWN_NS: its end was lost
            "answered_ns": pa.int64(),  # UNKNOWN_NS: no response
            "in_flight": pa.int32(),
            "complete": pa.bool_(),
            "response_complete": pa.bool_(),
            "request_file": pa.int32(),
            "request_offset": pa.int64(),
            "request_size": pa.int32(),  # bytes that are there
            "response_file": pa.int32(),  # NOWHERE: no response
            "response_offset": pa.int64(),
            "response_size": pa.int32(),
            "shape": pa.int32(),  # see `request_shapes`
            "facts": pa.list_(pa.int64()),
        }.items()
    ]
)
ORDER = ("first_ns", "packet", "connection", "ordinal")
"""The columns by which rows are sorted."""


@dataclass(slots=True)
class CapturedFile:
    """A capture as it was when the log was made."""

    name: str  # for the user
    path: str  # "": no frame lies in it
    size: int = 0
    mtime_ns: int = 0

    def has_changed(self) -> bool:
        """Return whether frames cannot be read from it any more."""
        if not self.path:
            return False
        try:
            found = os.stat(self.path)
        except OSError:
            return True
        return (found.st_size, found.st_mtime_ns) != (self.size, self.mtime_ns)


@dataclass(slots=True)
class LogFacts:
    """Facts of a log beside its rows."""

    captures: list[CapturedFile]
    earliest_ns: int
    latest_ns: int
    warnings: list[str] = field(default_factory=list)
    frames: list[str] = field(default_factory=list)  # names of the files of frames
    topics: dict[str, str] = field(default_factory=dict)  # topic id in hexadecimal -> name
    nodes: dict[str, list[tuple[str, int]]] = field(default_factory=dict)  # node id -> its listeners
    connections: dict[str, tuple[str, str, bool]] = field(
        default_factory=dict
    )  # number -> client, server, whether the capture has its beginning
    orphans: int = 0  # responses without a request
    unread_tls: int = 0  # connections that could not be decrypted
    requests: int = 0


def write_facts(folder: Path, facts: LogFacts) -> None:
    """Write what a log says beside its rows."""
    (folder / FACTS).write_text(json.dumps({"format": FORMAT, **asdict(facts)}), "ascii")


def is_log(path: str) -> bool:
    """Return whether a path is the directory of a replay log."""
    return os.path.isfile(os.path.join(path, FACTS))


def open_log(folder: Path) -> LogFacts:
    """Return what a log says. Raise UsageError for one of another version, or whose captures have changed."""
    try:
        values: dict[str, Any] = json.loads((folder / FACTS).read_text("ascii"))
        if values.pop("format", None) != FORMAT:
            raise UsageError(f"{folder} was written by another version of kdissect; make it anew")
        facts = LogFacts(**values)
        facts.captures = [CapturedFile(**each) for each in values["captures"]]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{folder} is not a replay log ({error})") from None
    for capture in facts.captures:
        if capture.has_changed():
            raise UsageError(
                f"{capture.path} has changed since {folder} was made, and has its frames; make it anew"
            )
    return facts
