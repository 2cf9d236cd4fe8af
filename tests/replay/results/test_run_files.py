"""The files of a run: whole, private, and never overwritten."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kdissect.capture.formats.file_types import InputError
from kdissect.errors import OutputError
from kdissect.replay.results.run_comparison import compare
from kdissect.replay.results.run_files import read_run, write_run
from tests.helpers.run_pairs import pair, run


def test_a_run_is_written_whole_private_and_once(tmp_path: Path) -> None:
    place = tmp_path / "runs" / "one"
    write_run(place, run(1), [json.dumps(pair(0))])
    assert {path.name: path.stat().st_mode & 0o777 for path in place.iterdir()} == {
        "run.json": 0o600,
        "pairs.jsonl": 0o600,
    }
    summary, pairs = read_run(place)
    assert compare(summary, pairs)["verdict"] == "pass"
    with pytest.raises(OutputError):
        write_run(place, run(1), [])

    def failing() -> Any:
        yield "{}"
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_run(tmp_path / "runs" / "two", run(1), failing())
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["one"]
    with pytest.raises(InputError):
        read_run(tmp_path)
