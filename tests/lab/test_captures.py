"""The captures in the repository are the files their manifest speaks of, and the manifest is consistent in
itself."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.lab import readme

FOLDER = Path(__file__).parents[2] / "captures"
ENTRIES: list[dict[str, Any]] = json.loads((FOLDER / "manifest.json").read_text())["captures"]
one_by_one = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: str(entry["name"]))


@one_by_one
def test_file_is_the_one_described(entry: dict[str, Any]) -> None:
    content = (FOLDER / entry["file"]).read_bytes()
    assert len(content) == entry["bytes"]
    assert hashlib.sha256(content).hexdigest() == entry["sha256"]


def test_captures_stay_small() -> None:
    assert all(entry["bytes"] < 2_000_000 for entry in ENTRIES)
    assert sum(entry["bytes"] for entry in ENTRIES) < 12_000_000


def test_every_capture_is_described() -> None:
    files = {path.name for path in FOLDER.iterdir() if path.suffix in (".pcap", ".pcapng")}
    assert files == {entry["file"] for entry in ENTRIES}


def test_both_file_formats_are_present() -> None:
    assert {Path(entry["file"]).suffix for entry in ENTRIES} == {".pcap", ".pcapng"}


def test_page_is_written_from_the_manifest(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes((FOLDER / "manifest.json").read_bytes())
    readme.write(tmp_path)
    assert (tmp_path / "README.md").read_text() == (FOLDER / "README.md").read_text()


@one_by_one
def test_counts_do_not_contradict_each_other(entry: dict[str, Any]) -> None:
    rows = entry["expected"]["requests"]
    assert all(0 <= row["answered"] <= row["requests"] for row in rows)
    if entry["exact"]:
        assert all(row["requests"] == row["requests_at_most"] for row in rows)
        assert sum(row["requests"] for row in rows) == sum(client["requests"] for client in entry["clients"])
    assert entry["connections"]["accepted"] >= entry["expected"]["connections_with_requests"]


@pytest.mark.parametrize("name", ["steady", "old-broker"])
def test_what_was_written_was_read(name: str) -> None:
    (entry,) = (each for each in ENTRIES if each["name"] == name)
    written: dict[str, int] = {}
    for client in entry["clients"]:
        if client["role"] == "produce":
            assert client["outcome"]["failed"] == {}
            for topic, count in client["outcome"]["records"].items():
                written[topic] = written.get(topic, 0) + count
    readers = [client["outcome"]["records"] for client in entry["clients"] if client["role"] == "consume"]
    assert readers
    for read in readers:
        assert read == {topic: written[topic] for topic in read}
