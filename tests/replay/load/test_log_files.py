"""`replay.load.log_files`: a log that cannot be used is refused with a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kdissect.errors import UsageError
from kdissect.replay.load.log_files import (
    FACTS,
    FORMAT,
    CapturedFile,
    LogFacts,
    is_log,
    open_log,
    write_facts,
)


def test_facts_are_written_and_read(tmp_path: Path) -> None:
    capture = tmp_path / "some.pcap"
    capture.write_bytes(b"12345")
    found = capture.stat()
    facts = LogFacts([CapturedFile("some.pcap", str(capture), 5, found.st_mtime_ns)], 1, 2, ["careful"])
    facts.topics["00"] = "orders"
    assert not is_log(str(tmp_path))
    write_facts(tmp_path, facts)
    assert is_log(str(tmp_path))
    assert open_log(tmp_path) == facts
    capture.write_bytes(b"123456")
    with pytest.raises(UsageError, match=r"some.pcap has changed since .* was made"):
        open_log(tmp_path)
    capture.unlink()
    with pytest.raises(UsageError, match="has changed"):
        open_log(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "[]", "{", json.dumps({"format": FORMAT}), json.dumps({"format": FORMAT, "captures": [{}]})]
)
def test_what_is_no_log_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / FACTS).write_text(text)
    with pytest.raises(UsageError, match="is not a replay log"):
        open_log(tmp_path)


def test_a_log_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / FACTS).write_text(json.dumps({"format": 99}))
    with pytest.raises(UsageError, match="another version"):
        open_log(tmp_path)
