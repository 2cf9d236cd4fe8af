"""`bytes_progress`: one line on a terminal, rare lines in a file, and the time that all passes still take."""

import io

import pytest

from kdissect.bytes_progress import BytesProgress

GB = 10**9


@pytest.mark.parametrize("terminal", [True, False])
def test_a_long_survey_is_told_of(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("kdissect.bytes_progress.time.monotonic", lambda: now[0])
    said = io.StringIO()
    monkeypatch.setattr(said, "isatty", lambda: terminal)
    with BytesProgress("indexing captures", stream=said) as told:
        told(1 * 10**9, 8 * 10**9)
        assert said.getvalue() == ""  # a survey that is short needs no progress
        now[0] += 40
        told(2 * 10**9, 8 * 10**9)
        told(3 * 10**9, 8 * 10**9)
    line = "kdissect: indexing captures, 1.86 GiB of 7.45 GiB, about 2 min left"
    assert said.getvalue() == (f"\r\x1b[K{line}\r\x1b[K" if terminal else f"{line}\n")


def test_the_time_left_is_that_of_this_pass_and_of_those_that_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("kdissect.bytes_progress.time.monotonic", lambda: now[0])
    said = io.StringIO()
    with BytesProgress("reading packets", "dissecting", stream=said) as told:
        now[0] += 40
        told(2 * GB, 4 * GB)
        now[0] += 20
        told(0, 4 * GB, 1)  # nothing is known of how fast the second pass is
        now[0] += 31
        told(1 * GB, 4 * GB, 1)
    assert said.getvalue().splitlines() == [
        "kdissect: reading packets (1 of 2), 1.86 GiB of 3.73 GiB, about 2 min left",
        "kdissect: dissecting (2 of 2), 954 MiB of 3.73 GiB, about 93 s left",
    ]


def test_a_quiet_command_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("kdissect.bytes_progress.time.monotonic", lambda: now[0])
    said = io.StringIO()
    with BytesProgress("indexing captures", quiet=True, stream=said) as told:
        now[0] += 400
        told(2 * GB, 4 * GB)
    assert said.getvalue() == ""
