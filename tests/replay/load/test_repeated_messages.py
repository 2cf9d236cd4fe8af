"""`replay.load.repeated_messages`: what is decoded once stands for all that are alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdissect.protocol.codec.messages import decode_request, decode_response
from kdissect.replay.load import repeated_messages
from kdissect.replay.load.analysis import load
from kdissect.replay.load.repeated_messages import RepeatedMessages
from kdissect.replay.load.requests import read
from kdissect.replay.load.spool import Spool
from kdissect.replay.settings import Groups, ReplaySettings
from tests.helpers.recorded import CAPTURES

CAPTURE = str(CAPTURES / "rebalances.pcapng")
LEARNT = (
    "items", "starts", "records", "record_bytes", "caps", "issuers", "after", "transactions", "retries",
    "repeats", "sessions", "older_sessions", "prior_members", "assignments", "source",
)  # fmt: skip


def test_messages_are_what_the_codec_makes_of_them(tmp_path: Path) -> None:
    spool, messages = Spool(), RepeatedMessages()
    repeated = 0
    bodies = set()
    for request in read([CAPTURE], (), str(tmp_path), spool).requests:
        frame, response = spool.get(request.frame) or b"", spool.get(request.response)
        decoded, expected = messages.request(frame), decode_request(frame, strict=True)
        assert (decoded.body, decoded.fault) == (expected.body, expected.fault)
        assert decoded.header["client_id"] == expected.header["client_id"]
        repeated += id(decoded.body) in bodies
        bodies.add(id(decoded.body))
        if response is not None and request.version is not None:
            answer = messages.response(response, request.key, request.version)
            told = decode_response(response, request.key, request.version, strict=True)
            assert (answer and answer.body) == (told.body if told.fault is None else None)
    assert repeated > 100
    assert messages.response(b"\0\0\0\1", 12, 4) is None
    assert messages.response(b"\0\0\0\1\0\0\0\0\0\0", 12, 99) is None


def test_nothing_that_is_learnt_depends_on_what_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, seen = [], list[tuple[int, int]]()
    for most_bytes in (repeated_messages.MOST_BYTES, -1):
        monkeypatch.setattr(repeated_messages, "MOST_BYTES", most_bytes)
        spool = Spool()
        capture = read([CAPTURE], (), str(tmp_path), spool)
        settings = ReplaySettings((("127.0.0.1", 1),), groups=Groups.FULL)
        loaded = load(capture, spool, settings, lambda done, requests: seen.append((done, requests)))
        bodies = [loaded.bodies.get(each.index, spool.get) for each in capture.requests]
        learnt = [getattr(loaded, name) for name in LEARNT if name != "items"]
        found.append(([list(loaded.items), *learnt], bodies))
    assert found[0] == found[1]
    assert seen == 2 * [(1000, len(capture.requests)), (2000, len(capture.requests))]
