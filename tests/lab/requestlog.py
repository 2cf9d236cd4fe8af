"""Reads brokers' request logs: what each broker says it was asked and answered.

In: the lines of `kafka.request.logger`, in the words of a modern release (JSON) or of an old one.
Out: one `Served` per completed request. This is the truth that a capture is compared with.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ERROR_FIELDS = ("errorCode", "partitionErrorCode")  # the latter in AddPartitionsToTxn 4 and newer
_MARK = "Completed request:"
# 0.10.2 writes a header struct for most APIs ...
_OLD = re.compile(
    r"\{api_key=(?P<key>\d+),api_version=(?P<version>\d+),correlation_id=(?P<correlation>-?\d+),"
    r"client_id=(?P<client>[^}]*)\}(?P<body>.*) from connection (?P<connection>[^;]+);"
)
# ... and the request's own words for those it still reads with its oldest code.
_OLDER = re.compile(
    r"Name: ?(?P<name>\w+); Version: ?(?P<version>\d+); CorrelationId: ?(?P<correlation>-?\d+); "
    r"ClientId: ?(?P<client>[^;]*);(?P<body>.*) from connection (?P<connection>[^;]+);"
)
# The APIs of 0.10.2 and before, by key; modern logs spell each name out.
_OLD_NAMES = [
    "Produce", "Fetch", "ListOffsets", "Metadata", "LeaderAndIsr", "StopReplica",
    "UpdateMetadata", "ControlledShutdown", "OffsetCommit", "OffsetFetch", "FindCoordinator", "JoinGroup",
    "Heartbeat", "LeaveGroup", "SyncGroup", "DescribeGroups", "ListGroups", "SaslHandshake",
    "ApiVersions", "CreateTopics", "DeleteTopics",
]  # fmt: skip
_OLDER_KEYS = {"ProducerRequest": 0, "FetchRequest": 1, "OffsetRequest": 2, "ControlledShutdownRequest": 7}


class Served(NamedTuple):
    """A request a broker completed. `errors` are the non-zero codes of its answer, None if not logged."""

    api_key: int
    api_name: str
    api_version: int
    correlation_id: int | None
    client_id: str
    connection: str
    answered: bool
    errors: tuple[int, ...] | None
    throttle_ms: int = 0  # that the answer asks the client to wait

    @property
    def server_port(self) -> int:
        return int(self.connection.split("-")[0].rpartition(":")[2])


def sizes(logs: Iterable[Path]) -> dict[Path, int]:
    """Return how long each log is now: a place to read on from later."""
    return {log: log.stat().st_size if log.exists() else 0 for log in logs}


def read(since: Mapping[Path, int]) -> list[Served]:
    """Return every request that was written to the logs after `sizes` was taken."""
    return [served for log, start in since.items() if log.exists() for served in _lines(log, start)]


def _lines(log: Path, start: int) -> Iterator[Served]:
    with log.open("rb") as raw:
        raw.seek(start)
        for line in (each.decode(errors="replace") for each in raw):
            if line.startswith(_MARK + '{"'):
                yield _from_json(json.loads(line.removeprefix(_MARK)))
            elif line.startswith(_MARK):
                yield _from_words(line)


def _from_json(entry: dict[str, object]) -> Served:
    header, request = entry["requestHeader"], entry.get("request")
    assert isinstance(header, dict)
    if entry["isForwarded"]:
        # Another broker passed it on inside an Envelope; the log shows only what was inside.
        return Served(58, "Envelope", 0, None, "", str(entry["connection"]), True, ())
    answered = not (isinstance(request, dict) and header["requestApiKey"] == 0 and request.get("acks") == 0)
    return Served(
        header["requestApiKey"],
        "".join(word.capitalize() for word in header["requestApiKeyName"].split("_")),
        header["requestApiVersion"],
        header["correlationId"],
        header["clientId"] or "",
        str(entry["connection"]),
        answered,
        tuple(_error_codes(entry.get("response"))),
        _throttle_ms(entry.get("response")),
    )


def _from_words(line: str) -> Served:
    found = _OLD.search(line) or _OLDER.search(line)
    if found is None:
        raise ValueError(f"not a request log line: {line[:200]}")
    words = found.groupdict()
    key = int(words["key"]) if "key" in words else _OLDER_KEYS[words["name"]]
    return Served(
        key,
        _OLD_NAMES[key],
        int(words["version"]),
        int(words["correlation"]),
        words["client"],
        words["connection"],
        not (key == 0 and re.search(r"acks[=:] ?0\b", words["body"], re.IGNORECASE)),
        None,
    )


def _throttle_ms(response: object) -> int:
    return int(response.get("throttleTimeMs", 0)) if isinstance(response, dict) else 0


def _error_codes(part: object) -> Iterator[int]:
    """Yield the non-zero value of every errorCode in a response, in the order of the log."""
    if isinstance(part, dict):
        for name, value in part.items():
            if name in ERROR_FIELDS and value:
                yield value
            else:
                yield from _error_codes(value)
    elif isinstance(part, list):
        for item in part:
            yield from _error_codes(item)
