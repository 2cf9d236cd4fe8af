"""Slices made by the command, and what kdissect and tshark read in them."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kdissect.cli.main import main
from kdissect.errors import ExitCode

CAPTURES = Path(__file__).parents[2] / "captures"
PLACE = ("request_packet", "response_packet", "capture_file")  # what a slice cannot keep
needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")


def make_slice(folder: Path, *arguments: str | Path, name: str = "slice.pcapng") -> Path:
    """Return the slice that these arguments make."""
    path = folder / name
    assert main(["slice", *map(str, arguments), "--quiet", "-o", str(path)]) == 0
    return path


def rows(capfd: pytest.CaptureFixture[str], *arguments: str | Path) -> list[dict[str, Any]]:
    """Return the exchanges of captures as `dump` shows them, without their place."""
    capfd.readouterr()
    assert main(["dump", *map(str, arguments), "--format", "jsonl"]) in (
        ExitCode.DONE,
        ExitCode.NOTHING_FOUND,
    )
    objects = map(json.loads, capfd.readouterr().out.splitlines())
    return [{name: value for name, value in one.items() if name not in PLACE} for one in objects]


def of_connections(found: list[dict[str, Any]], like: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the exchanges on the connections of others."""
    connections = {one["connection"] for one in like}
    return [one for one in found if one["connection"] in connections]


def tshark(path: Path, *options: str) -> list[str]:
    """Return the lines that tshark prints of a capture. It must have no complaint."""
    done = subprocess.run(["tshark", "-r", str(path), *options], capture_output=True, text=True, check=True)
    complaints = [line for line in done.stderr.splitlines() if "Running as user" not in line]
    assert not complaints
    return done.stdout.splitlines()
