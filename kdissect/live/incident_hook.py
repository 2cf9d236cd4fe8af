"""A command or a URL that hears of incidents: `--on-incident`.

Each change of an incident is an event, the same that `--format jsonl` prints. A command gets it as JSON on
its standard input, a URL by POST. A thread does this beside the batches. Ten calls may follow each other,
then there is one every six seconds. Meanwhile a newer update of an incident replaces the one that waits. A
call that takes longer than CALL_SECONDS is ended. One that fails is a notice, and the watch goes on.
"""

import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kdissect.errors import UsageError
from kdissect.text import without_password

BURST = 10  # calls that may follow each other
PERIOD_SECONDS = 6.0  # between calls afterwards
CALL_SECONDS = 10.0
MOST_WAITING = 100
LONGEST_ERROR = 200  # bytes of what a command printed
USER_AGENT = "kdissect-watch"

Event = dict[str, Any]
Call = Callable[[bytes], None]


class HookError(Exception):
    """A call has failed; the message is a part of a sentence."""


class IncidentHook:
    """See the module's text. `notice` gets a sentence for whatever fails."""

    def __init__(self, target: str, notice: Callable[[str], None], period_s: float = PERIOD_SECONDS) -> None:
        """Check the target and begin to wait for events. Raise UsageError."""
        self._call, self._notice, self._period_s = call_for(target), notice, period_s
        self._waiting: list[Event] = []
        self._dropped = 0
        self._changed = threading.Condition()
        self._is_closing = False
        self._credit, self._credited_s = float(BURST), time.monotonic()
        self._thread = threading.Thread(target=self._run, name="on-incident", daemon=True)
        self._thread.start()

    def put(self, event: Event) -> None:
        """Add an event; this never waits."""
        with self._changed:
            for index, other in enumerate(self._waiting):
                same = (other["number"], other["change"]) == (event["number"], event["change"])
                if same and event["change"] == "updated":
                    self._waiting[index] = event
                    return
            if len(self._waiting) == MOST_WAITING:
                del self._waiting[0]
                self._dropped += 1
            self._waiting.append(event)
            self._changed.notify()

    def close(self) -> None:
        """Send what waits, for CALL_SECONDS at most, and end."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join(CALL_SECONDS)
        with self._changed:
            left = len(self._waiting) + self._dropped
        if left:
            self._notice(f"--on-incident: {left} event{'s' * (left != 1)} not sent")

    def _run(self) -> None:
        while (event := self._next()) is not None:
            try:
                self._call(json.dumps(event).encode())
            except HookError as error:
                self._notice(f"--on-incident: {error}")

    def _next(self) -> Event | None:
        """Return the next event as soon as the rate allows it; None at the end."""
        with self._changed:
            while True:
                now_s = time.monotonic()
                self._credit = min(BURST, self._credit + (now_s - self._credited_s) / self._period_s)
                self._credited_s = now_s
                if self._waiting and (self._credit >= 1 or self._is_closing):
                    self._credit -= 1
                    return self._waiting.pop(0)
                if self._is_closing:
                    return None
                self._changed.wait((1 - self._credit) * self._period_s if self._waiting else None)


def call_for(target: str) -> Call:
    """Return what sends an event to a command or a URL. Raise UsageError if there is none such."""
    if target.startswith(("http://", "https://")):
        try:
            host = urllib.parse.urlsplit(target).hostname
        except ValueError:
            host = None
        if not host:
            raise UsageError(f"--on-incident: {without_password(target)} is not a URL with a host")
        return lambda data: _post(target, data)
    try:
        words = shlex.split(target)
    except ValueError as error:
        raise UsageError(f"--on-incident: {str(error).lower()}: {target}") from None
    if not words or shutil.which(words[0]) is None:
        raise UsageError(f"--on-incident: there is no command {words[0] if words else target!r}")
    return lambda data: _run_command(words, data)


def _post(url: str, data: bytes) -> None:
    headers = {"Content-Type": "application/json", "User-Agent": USER_AGENT}
    request = urllib.request.Request(url, data, headers)  # noqa: S310 - call_for takes http and https only
    try:
        urllib.request.urlopen(request, timeout=CALL_SECONDS).close()  # noqa: S310
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        code = f"{error.code} " if isinstance(error, urllib.error.HTTPError) else ""
        raise HookError(without_password(f"{url}: {code}{reason}")) from None


def _run_command(words: list[str], data: bytes) -> None:
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True
            )
        except OSError as error:
            raise HookError(f"{words[0]}: {(error.strerror or str(error)).lower()}") from None
        try:
            process.communicate(data, CALL_SECONDS)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise HookError(f"{words[0]} was ended after {CALL_SECONDS:.0f} s") from None
        if process.returncode:
            errors.seek(0)
            first = errors.read(LONGEST_ERROR).decode(errors="replace").strip().partition("\n")[0]
            raise HookError(f"{words[0]} failed with {process.returncode}{first and ': '}{first}")
