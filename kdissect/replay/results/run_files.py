"""The files of a run, which are all that `compare` needs.

`run.json` says what was asked, what the target is, what came of it; `pairs.jsonl` has one line for each captured request.

A directory is made whole or not at all: files are written beside it and moved into place. What may let someone in is never
written: nothing of a handshake is replayed, bodies are redacted by role, records appear as sizes. Files are readable by their
owner only.
"""

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from kdissect.capture.formats.file_types import InputError
from kdissect.dump.jsonl import to_json
from kdissect.errors import OutputError
from kdissect.exchanges.describe import (
    Showing,
    explain_request,
    explain_response,
)
from kdissect.files import (
    FileLock,
    part_path,
)
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import decode_request, decode_response
from kdissect.protocol.redact import has_secrets
from kdissect.protocol.schema.registry import APIS, api_name
from kdissect.replay.engine.pass_results import RequestResult
from kdissect.replay.engine.run import PlayedPass, Replay
from kdissect.replay.load.analysis import ReplayItem
from kdissect.replay.results.answer_digest import digest, produced_records

VERSION = 1
LONGEST_BODY = 1 << 16  # bytes of a frame whose body is written out in full


def write_run(folder: Path, summary: dict[str, Any], pairs: Iterable[str]) -> None:
    """Write a run. Raises OutputRefused when the directory is there already."""
    if folder.exists():
        raise OutputError(f"{folder} exists already: a run's files are never overwritten")
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = part_path(folder)
    part.mkdir(mode=0o700)
    claim = FileLock(part)
    try:
        with _private(part / "pairs.jsonl") as lines:
            for pair in pairs:
                lines.write(pair + "\n")
        with _private(part / "run.json") as file:
            file.write(json.dumps(summary, indent=1) + "\n")
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
        claim.end()


def _private(path: Path) -> Any:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii")


def read_run(folder: Path) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """Read a run back. Raises InputError for what is none."""
    try:
        summary = json.loads((folder / "run.json").read_text("ascii"))
    except (OSError, ValueError) as error:
        raise InputError(f"{folder} holds no run of a replay ({error})") from None
    if not isinstance(summary, dict) or summary.get("format") != VERSION:
        raise InputError(f"{folder} was written by another version of kdissect")
    return summary, _pairs(folder / "pairs.jsonl")


def _pairs(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with path.open(encoding="ascii") as lines:
            for line in lines:
                yield json.loads(line)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error})") from None


def pair_lines(replay: Replay, played: PlayedPass) -> Iterator[str]:
    """Write each captured request of a pass, in the order of the capture, with what became of it."""
    results = sorted(played.outcome.results, key=lambda result: result.index)
    showing = Showing(replay.capture.names)
    for result in results:
        yield to_json(_pair(replay, played, replay.loaded.items[result.index], result, showing))


def _pair(
    replay: Replay, played: PlayedPass, item: ReplayItem, result: RequestResult, showing: Showing
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
            _answer(replay, item, version, played.answer(result, place)) for version, place in result.answers
        ],
        "again": result.again,
        "produced": played.outcome.produced.get(request.index, []),
        "speed": replay.settings.speed,
        "rewrites": played.outcome.notes.get(request.index, []),
    }


def _sent(played: PlayedPass, result: RequestResult) -> dict[str, Any]:
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


def _captured(replay: Replay, item: ReplayItem, showing: Showing) -> dict[str, Any]:
    request = item.request
    said: dict[str, Any] = {"request": None, "answer": None, "digest": []}
    if request.version is None or request.key not in APIS:
        return said
    whole = decode_request(replay.shelf.get(request.frame) or b"")
    if request.key == ApiKey.PRODUCE and whole.body is not None and whole.fault is None:
        said["produced"] = produced_records(whole.body, replay.capture.names.get)
    if request.frame.size <= LONGEST_BODY and not has_secrets(APIS[request.key].request):
        said["request"] = explain_request(whole, showing).get("body")
    answer = replay.shelf.get(request.answer) if request.answer_whole else None
    if answer is not None:
        read = decode_response(answer, request.key, request.version)
        if len(answer) <= LONGEST_BODY and not has_secrets(APIS[request.key].response):
            said["answer"] = explain_response(read, request.key, whole.body, showing).get("body")
        if read.body is not None and read.fault is None:
            said["digest"] = digest(request.key, read.body, replay.capture.names.get)
    return said


def _answer(replay: Replay, item: ReplayItem, version: int, frame: bytes) -> dict[str, Any]:
    key = item.request.key
    whole = decode_response(frame, key, version)
    names = replay.loaded.names
    said: dict[str, Any] = {"version": version, "bytes": len(frame), "body": None, "digest": []}
    if len(frame) <= LONGEST_BODY and not has_secrets(APIS[key].response):
        target_names = {identity: name for name, identity in names.target_ids.items()}
        said["body"] = explain_response(whole, key, None, Showing(target_names)).get("body")
    if whole.body is not None and whole.fault is None:
        said["digest"] = digest(key, whole.body, names.name_of)
    else:
        said["fault"] = str(whole.fault)
    return said
