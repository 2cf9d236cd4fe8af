"""`kdissect export`: what is written, where, and what is refused."""

from pathlib import Path

import pytest

from tests.helpers.command import kdissect

ROOT = Path(__file__).parents[2]


CAPTURE = ROOT / "captures" / "cluster-life.pcapng"


@pytest.mark.spark
def test_port_narrows(tmp_path: Path) -> None:
    done = kdissect("analyze", "--quiet", "--port", "9", CAPTURE)
    assert (done.returncode, done.stdout) == (2, "")
    assert "holds no TCP packets on port 9" in done.stderr


@pytest.mark.spark
def test_export_refuses_to_replace_and_then_does(tmp_path: Path) -> None:
    out = tmp_path / "tables"
    arguments = ("export", CAPTURE, "--table", "connections", "--format", "csv", "--out", out)
    assert kdissect(*arguments).returncode == 0
    rows = [line for path in (out / "connections").iterdir() for line in path.read_text().splitlines()]
    assert rows[0].startswith("connection,client_host,client_port")
    again = kdissect(*arguments)
    assert (again.returncode, again.stdout) == (2, "")
    assert "is not empty" in again.stderr
    assert kdissect(*arguments, "--overwrite", "--quiet").stderr == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tables", "temporary"]
