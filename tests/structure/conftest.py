"""Small checkouts, each with one fault, for the rules to be seen to fail."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.structure.project import Project

Make = Callable[[Mapping[str, str]], Project]

CLEAN = {
    "pyproject.toml": '[project]\nname = "kdissect"\ndependencies = []\n',
    "README.md": "# kdissect\n",
    "kdissect/__init__.py": '"""Return to the sender."""\n',
    "tests/conftest.py": "",
}


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Return a function that writes files beside those of a clean checkout and opens all of them."""

    def write(files: Mapping[str, str]) -> Project:
        for name, text in {**CLEAN, **files}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return Project(tmp_path)

    return write
