"""The files of a run, which are all that `compare` needs.

`run.json` has the settings, the plan and the totals; `pairs.jsonl` has one line for each captured request,
with what became of it. Each pass has its own directory. If several machines have sent, each of them has a
directory with its requests in there (`worker-0`), and they are read together in the order of the capture.

After a run that was stopped somebody waits for the report. So requests that were not sent for it are counted
together, and after `PATIENCE_S` all others too.

A directory is written whole or not at all: files are written beside it and moved into place. Secrets
are never written: nothing of a handshake is replayed, bodies are redacted by role, records appear
as sizes. Files are readable by their owner only.
"""

import json
import os
import time
from collections.abc import Iterable, Iterator
from heapq import merge
from math import inf
from pathlib import Path
from typing import IO, Any

import numpy as np

from kdissect import __version__
from kdissect.capture.formats.file_types import InputError
from kdissect.dump.jsonl import json_line
from kdissect.errors import OutputError
from kdissect.exchanges.describe import (
    DescribeOptions,
    describe_request,
    describe_response,
)
from kdissect.files import UnfinishedOutput
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import decode_request, decode_response
from kdissect.protocol.redact import has_secrets
from kdissect.protocol.schema.registry import APIS, api_name
from kdissect.replay.disposition import Disposition
from kdissect.replay.engine.pass_results import RequestResult
from kdissect.replay.engine.run import PlayedPass, Replay
from kdissect.replay.load.replay_items import ReplayItem, column_blocks
from kdissect.replay.results.response_digest import digest, produced_records

FORMAT = 1
PAIRS, PARTS = "pairs.jsonl", "worker-*"
PATIENCE_S = 2.0  # until when the requests of a run that was stopped are written one by one
NO_KEYS = np.zeros(0, np.int16)
LONGEST_BODY = 1 << 16  # bytes of a frame whose body is written out in full


# Writing


def save_passes(replay: Replay, folder: Path, plan: dict[str, Any]) -> list[Path]:
    """Write every pass. Return the directories."""
    return [save_pass(replay, folder, plan, number, played) for number, played in enumerate(replay.passes)]


def save_pass(replay: Replay, folder: Path, plan: dict[str, Any], number: int, played: PlayedPass) -> Path:
    """Write one pass, the first to `folder` and the others beside it. Return its directory."""
    place = folder if number == 0 else folder.with_name(f"{folder.name}-{number + 1}")
    write_run(place, run_summary(replay, played, plan), pair_lines(replay, played))
    return place


def write_run(folder: Path, summary: dict[str, Any], pairs: Iterable[str]) -> None:
    """Write the files of one pass. Raise OutputError if the directory exists."""
    if folder.exists():
        raise OutputError(f"{folder} already exists; files of a run are never overwritten")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with UnfinishedOutput(folder) as part:
        path = part.directory(mode=0o700)
        _write_pairs(path, pairs)
        write_summary(path, summary)
        part.move()


def write_lines(folder: Path, pairs: Iterable[str]) -> None:
    """Write the requests of one of several workers to a directory. Raise OSError."""
    with UnfinishedOutput(folder) as part:
        _write_pairs(part.directory(mode=0o700), pairs)
        part.move()


def _write_pairs(folder: Path, pairs: Iterable[str]) -> None:
    with _private(folder / PAIRS) as lines:
        for pair in pairs:
            lines.write(pair + "\n")


def write_summary(folder: Path, summary: dict[str, Any]) -> None:
    """Write the summary of a pass to its directory."""
    with _private(folder / "run.json") as file:
        file.write(json.dumps(summary, indent=1) + "\n")


def _private(path: Path) -> IO[str]:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii")


def run_summary(replay: Replay, played: PlayedPass, plan: dict[str, Any]) -> dict[str, Any]:
    """Return what `run.json` has."""
    outcome, counters = played.outcome, played.outcome.counters
    used_rules = {
        f"{topic}-{partition}": {rule.value: count for rule, count in rules.items()}
        for (topic, partition), rules in sorted(outcome.rules.items())
    }
    return {
        "format": FORMAT,
        "kdissect": __version__,
        "id": replay.settings.run,
        "started_ns": played.start_wall_ns,
        "stopped": outcome.stopped,
        "plan": plan,
        "open_transactions": outcome.open_transactions,
        "commits": outcome.commits,
        "offsets": {"rules": used_rules, "clamped": outcome.clamped},
        "peak_in_flight": outcome.peak_in_flight,
        "peak_lines": outcome.peak_connections,
        "processes": len(played.spools),
        "connections": {
            "opened": counters.opened,
            "refused": counters.refused,
            "closed_by_peer": counters.closed_by_peer,
        },
        "throttled": {"answers": counters.throttled, "ms": counters.throttle_ms},
        "synthetic": dict(sorted(counters.synthetic.items())),
        "counts": dict(outcome.counts.most_common()),
    }


def pair_lines(replay: Replay, played: PlayedPass) -> Iterator[str]:
    """Yield each captured request of a pass as JSON, in the order of the capture, with what became of it."""
    stopped, until_s = bool(played.outcome.stopped), time.monotonic() + PATIENCE_S
    results, items = played.outcome.results, replay.loaded.items
    showing = DescribeOptions(replay.capture.names)
    is_left = results.ended_as(Disposition.POLICY) if stopped else np.zeros(len(results), bool)
    order = results.in_order()
    shown = order[~is_left[order]]
    for place, number in enumerate(shown):
        if stopped and time.monotonic() > until_s:
            is_left[shown[place:]] = True
            break
        result = results[int(number)]
        yield json_line(_pair(replay, played, items[result.index], result, showing))
    keys = np.concatenate([NO_KEYS, *(key.astype(np.int16) for (key,) in column_blocks(items, "key"))])
    for (key, disposition, reason), count in results.counted(is_left, keys):
        yield json_line(
            {"requests": count, "api": api_name(key), "bucket": disposition.value, "reason": reason}
        )


def _pair(
    replay: Replay, played: PlayedPass, item: ReplayItem, result: RequestResult, showing: DescribeOptions
) -> dict[str, Any]:
    request = item.request
    return {
        "index": request.index,
        "connection": request.connection,
        "ordinal": request.ordinal,
        "api_key": request.key,
        "api": api_name(request.key),
        "client_id": item.client_id,
        "bucket": result.bucket.value,
        "reason": result.reason,
        "captured": {
            "version": request.version,
            "time_ns": request.first_ns,
            "service_ns": request.service_ns,
            "error": item.error,
            "status": request.status,
            "request_bytes": request.frame.size,
            **_captured(replay, item, showing),
        },
        "sent": None if result.sent_ns is None else _sent(played, result),
        "answers": [
            _replayed(replay, item, version, played.answer(result, slot)) for version, slot in result.answers
        ],
        "again": result.again,
        "produced": played.outcome.produced.get(request.index, []),
        "speed": replay.settings.speed,
        "rewrites": played.outcome.notes.get(request.index, []),
    }


def _sent(played: PlayedPass, result: RequestResult) -> dict[str, Any]:
    """Return when and how a request was sent; times are ns since the start of the pass."""

    def since_start(time_ns: int | None) -> int | None:
        return None if time_ns is None else time_ns - played.start_ns

    return {
        "version": result.version,
        "node": result.node,
        "parts": result.parts,
        "bytes": result.sent_bytes,
        "due_ns": since_start(result.due_ns),
        "sent_ns": since_start(result.sent_ns),
        "received_ns": since_start(result.received_ns),
        "cause": result.cause,
        "throttle_ms": result.throttle_ms,
    }


def _captured(replay: Replay, item: ReplayItem, showing: DescribeOptions) -> dict[str, Any]:
    """Return the captured request and response: bodies without secrets, the digest, and what was produced."""
    request, names = item.request, replay.capture.names
    found: dict[str, Any] = {"request": None, "answer": None, "digest": []}
    if request.version is None or request.key not in APIS:
        return found
    asked = decode_request(replay.spool.get(request.frame) or b"", strict=True)
    if request.key == ApiKey.PRODUCE and asked.body is not None and asked.fault is None:
        found["produced"] = produced_records(asked.body, names.get)
    if request.frame.size <= LONGEST_BODY and not has_secrets(APIS[request.key].request):
        found["request"] = describe_request(asked, showing).get("body")
    frame = replay.spool.get(request.response) if request.response_complete else None
    if frame is not None:
        response = decode_response(frame, request.key, request.version, strict=True)
        if len(frame) <= LONGEST_BODY and not has_secrets(APIS[request.key].response):
            found["answer"] = describe_response(response, request.key, asked.body, showing).get("body")
        if response.body is not None and response.fault is None:
            found["digest"] = digest(request.key, response.body, names.get, replay.loaded.reads.first_written)
    return found


def _replayed(replay: Replay, item: ReplayItem, version: int, frame: bytes) -> dict[str, Any]:
    """Return a response of the target: its body without secrets, its digest, or why it cannot be decoded."""
    key, names = item.request.key, replay.loaded.names
    response = decode_response(frame, key, version, strict=True)
    found: dict[str, Any] = {"version": version, "bytes": len(frame), "body": None, "digest": []}
    if len(frame) <= LONGEST_BODY and not has_secrets(APIS[key].response):
        shown = describe_response(response, key, None, DescribeOptions(names.target_names))
        found["body"] = shown.get("body")
    if response.body is not None and response.fault is None:
        found["digest"] = digest(key, response.body, names.name_of)
    else:
        found["fault"] = str(response.fault)
    return found


# Reading


def read_run(folder: Path) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """Return the summary of a run, and its pairs, which are read as they are used.

    Raise InputError if the folder is not the directory of a run.
    """
    try:
        summary = json.loads((folder / "run.json").read_text("ascii"))
    except (OSError, ValueError) as error:
        raise InputError(f"{folder} is not the directory of a run ({error})") from None
    if not isinstance(summary, dict) or summary.get("format") != FORMAT:
        raise InputError(f"{folder} was written by another version of kdissect")
    parts = sorted(folder.glob(f"{PARTS}/{PAIRS}"))
    if not parts or (folder / PAIRS).exists():
        return summary, _pairs(folder / PAIRS)
    return summary, merge(*map(_pairs, parts), key=_place)


def _place(pair: dict[str, Any]) -> float:
    """Return where a pair stands in the order of the capture; those that were counted together come last."""
    return float(pair.get("index", inf))


def _pairs(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with path.open(encoding="ascii") as lines:
            for line in lines:
                yield json.loads(line)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error})") from None
