"""`replay.load.log_part`: each recorded capture gives the same requests through a log as read directly."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from kdissect.replay.load.log_requests import read_log
from kdissect.replay.load.request_table import Request
from kdissect.replay.load.requests import read
from kdissect.replay.load.spool import RANGE_BITS, Spool, SpoolSlot
from tests.helpers.recorded import CAPTURES
from tests.helpers.replay_logs import make_log

RECORDED = sorted(path.name for path in CAPTURES.glob("*.pcap*"))
ENCRYPTED = "tls.pcapng"
NOWHERE = SpoolSlot(0, 0)


def described(request: Request, spool: Spool) -> tuple[Request, bytes | None, bytes | None]:
    """Return all of a request but where its frames lie."""
    frames = spool.get(request.frame), spool.get(request.response)
    return dataclasses.replace(request, frame=NOWHERE, response=None), *frames


@pytest.mark.parametrize("name", RECORDED)
def test_a_log_has_the_requests_of_its_capture(name: str, tmp_path: Path) -> None:
    direct, logged, path = Spool(), Spool(), str(CAPTURES / name)
    expected = read([path], (), str(tmp_path), direct)
    make_log([path], tmp_path / "log")
    found = read_log(tmp_path / "log", logged)
    assert len(found.requests) == len(expected.requests) > 0
    for one, other in zip(expected.requests, found.requests, strict=True):
        assert described(one, direct) == described(other, logged)
    for field in dataclasses.fields(expected):
        if field.name not in ("requests", "logged"):
            assert getattr(found, field.name) == getattr(expected, field.name), field.name
    in_capture = sum(request.frame.at >> RANGE_BITS == 1 for request in found.requests)
    assert in_capture >= (0 if name == ENCRYPTED else 0.9 * len(found.requests))


def test_frames_are_copied_if_the_capture_goes_away(tmp_path: Path) -> None:
    direct, logged, path = Spool(), Spool(), str(CAPTURES / "steady.pcapng")
    expected = read([path], (), str(tmp_path), direct)
    make_log([path], tmp_path / "log", keep=False)
    found = read_log(tmp_path / "log", logged)
    assert all(request.frame.at >> RANGE_BITS > 1 for request in found.requests)
    assert [described(each, direct) for each in expected.requests] == [
        described(each, logged) for each in found.requests
    ]
