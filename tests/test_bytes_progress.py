"""`bytes_progress`: one line on a terminal, rare lines in a file, and the time that all passes still take."""

import io

import pytest

from kdissect.bytes_progress import BytesProgress

GB = 10**9


@pytest.mark.parametrize("terminal", [True, False])
def test_long_reading_is_shown(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("kdissect.bytes_progress.time.monotonic", lambda: now[0])
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    with BytesProgress("indexing captures", stream=stream) as show:
        show(1 * 10**9, 8 * 10**9)
        assert stream.getvalue() == ""  # short reading needs no progress
        now[0] += 40
        show(2 * 10**9, 8 * 10**9)
        show(3 * 10**9, 8 * 10**9)
    line = "kdissect: indexing captures, 1.86 GiB of 7.45 GiB, about 2 min left"
    assert stream.getvalue() == (f"\r\x1b[K{line}\r\x1b[K" if terminal else f"{line}\n")


def test_the_time_left_is_that_of_this_pass_and_of_those_that_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("kdissect.bytes_progress.time.monotonic", lambda: now[0])
    stream = io.StringIO()
    with BytesProgress("reading packets", "dissecting", stream=stream) as show:
        now[0] += 40
        show(2 * GB, 4 * GB)
        now[0] += 20
        show(0, 4 * GB, 1)  # nothing is known of how fast the second pass is
        now[0] += 31
        show(1 * GB, 4 * GB, 1)
    assert stream.getvalue().splitlines() == [
        "kdissect: reading packets (1 of 2), 1.86 GiB of 3.73 GiB, about 2 min left",
        "kdissect: dissecting (2 of 2), 954 MiB of 3.73 GiB, about 93 s left",
    ]


def test_a_quiet_command_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("kdissect.bytes_progress.time.monotonic", lambda: now[0])
    stream = io.StringIO()
    with BytesProgress("indexing captures", quiet=True, stream=stream) as show:
        now[0] += 400
        show(2 * GB, 4 * GB)
    assert stream.getvalue() == ""
