"""Hooks get each event once, beside the batches, and failures of hooks are notices."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from kdissect.errors import UsageError
from kdissect.live import incident_hook
from kdissect.live.incident_hook import BURST, MOST_WAITING, IncidentHook


def event(number: int, change: str = "opened") -> dict[str, object]:
    return {"event": "incident", "number": number, "change": change, "headline": "broker 2\nfroze"}


@contextmanager
def served(status: int, bodies: list[bytes]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_command_gets_each_event_on_its_standard_input(tmp_path: Path) -> None:
    script = tmp_path / "hook"
    script.write_text(f"#!/bin/sh\ncat >> '{tmp_path}/events'\necho >> '{tmp_path}/events'\n")
    script.chmod(0o700)
    notices: list[str] = []
    hook = IncidentHook(f"'{script}' now", notices.append)
    for number in range(3):
        hook.put(event(number))
    hook.close()
    assert [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()] == [
        event(number) for number in range(3)
    ]
    assert not notices


@pytest.mark.parametrize(("status", "told"), [(204, []), (500, ["500 Internal Server Error"])])
def test_a_url_gets_each_event(status: int, told: list[str]) -> None:
    bodies: list[bytes] = []
    notices: list[str] = []
    with served(status, bodies) as url:
        hook = IncidentHook(url, notices.append)
        hook.put(event(1))
        hook.close()
        assert json.loads(bodies[0]) == event(1)
        assert notices == [f"--on-incident: {url}: {reason}" for reason in told]


def test_failures_are_notices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incident_hook, "CALL_SECONDS", 0.3)
    notices: list[str] = []
    for target in ("sh -c 'echo no such channel >&2; exit 3'", "sleep 60", "http://127.0.0.1:1/"):
        hook = IncidentHook(target, notices.append)
        began = time.monotonic()
        hook.put(event(1))
        assert time.monotonic() - began < 0.2  # batches do not wait
        hook._thread.join(0.6)
        hook.close()
    assert notices[0] == "--on-incident: sh failed with 3: no such channel"
    assert notices[1].startswith("--on-incident: sleep was ended after")
    assert "refused" in notices[2]


def test_events_beyond_the_rate_wait_and_updates_replace_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[dict[str, object]] = []
    monkeypatch.setattr(incident_hook, "call_for", lambda _: lambda data: calls.append(json.loads(data)))
    notices: list[str] = []
    hook = IncidentHook("", notices.append, period_s=3600)
    for number in range(BURST):
        hook.put(event(number))
    until = time.monotonic() + 5
    while len(calls) < BURST and time.monotonic() < until:
        time.sleep(0.01)
    for _ in range(5):
        hook.put(event(1, "updated"))
    for number in range(MOST_WAITING):
        hook.put(event(number, "closed"))
    time.sleep(0.05)
    assert len(calls) == BURST
    assert len(hook._waiting) == MOST_WAITING  # the update had to go
    hook.close()
    assert [call["change"] for call in calls[BURST:]] == ["closed"] * MOST_WAITING
    assert notices == ["--on-incident: 1 event not sent"]


@pytest.mark.parametrize("target", ["", "'", "no-such-command-here x", "http://", "https:///path"])
def test_targets_that_cannot_be_called_are_refused(target: str) -> None:
    with pytest.raises(UsageError, match="--on-incident"):
        IncidentHook(target, lambda _: None)
