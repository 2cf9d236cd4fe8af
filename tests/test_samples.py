"""The sample reports are what the command makes today."""

from pathlib import Path

import pytest

from tests import samples

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reports")
    samples.make(folder)
    return folder


@pytest.mark.parametrize("name", samples.REPORTS)
def test_made_again_they_are_the_same(made: Path, name: str) -> None:
    again, kept = (made / name).read_text("utf-8"), (samples.FOLDER / name).read_text("utf-8")
    # Compared by a plain `if`: the difference of two pages would fill the terminal.
    if again != kept:
        pytest.fail(f"reports/broker-restart/{name} is not up to date: run python -m tests.samples")


def test_the_readme_shows_what_the_command_prints() -> None:
    screen = (samples.FOLDER / samples.SCREEN).read_text("utf-8")
    assert f"```text\n{screen}```" in (samples.ROOT / "README.md").read_text("utf-8")


@pytest.mark.parametrize("name", samples.SHOTS)
def test_screenshots_are_small(name: str) -> None:
    assert 10_000 < (samples.FOLDER / name).stat().st_size < 200_000
