"""The notebooks of docs/ run from their first cell to their last, as a plain script would."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.command import environment
from tests.helpers.tiers import thorough_after

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def script(notebook: Path) -> str:
    cells = json.loads(notebook.read_text())["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def test_there_are_three() -> None:
    assert [notebook.stem for notebook in NOTEBOOKS] == ["codec", "exchanges", "tables"]


@pytest.mark.parametrize("notebook", thorough_after(2, NOTEBOOKS), ids=lambda notebook: notebook.stem)
@pytest.mark.spark
@pytest.mark.timeout(900)  # a session of Spark without the shortcuts of the command, on a busy machine
def test_a_notebook_runs(notebook: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", script(notebook)],
        cwd=notebook.parent,  # where Jupyter starts it
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_a_notebook_is_kept_without_its_output(notebook: Path) -> None:
    cells = json.loads(notebook.read_text())["cells"]
    assert not [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")]
