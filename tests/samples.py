"""The sample reports in reports/: made by the command itself from a recorded capture, `python -m
tests.samples`.

A test makes them again and compares. With Chromium there are screenshots of the page too, which no test
compares: every version of a browser draws a little differently.
"""

import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]

from tests.helpers.browser import CHROMIUM, DRIVER, browser  # noqa: E402
from tests.helpers.command import COMMAND, environment  # noqa: E402

CAPTURE = "captures/broker-restart.pcapng"
FOLDER = ROOT / "reports" / "broker-restart"
SCREEN = "screen.txt"  # what the command prints; it stands in the README, too
REPORTS = (SCREEN, "report.txt", "report.json", "report.html")
SHOTS = {
    "page-light.png": {"dark": False, "from": "top", "height": 940},
    "page-dark.png": {"dark": True, "from": "traffic", "height": 1040},
}


def make(folder: Path) -> None:
    """Make the reports in a folder."""
    options = ("--quiet", "--out", str(folder), "--html", str(folder / "report.html"))
    command = (*COMMAND, "analyze", CAPTURE, *options)
    with (folder / SCREEN).open("wb") as screen:
        subprocess.run(
            command, cwd=ROOT, env=environment(COLUMNS="120"), check=True, stdout=screen, timeout=280
        )


def photograph(folder: Path) -> None:
    """Make the screenshots of the page that the README shows, where there is a browser."""
    if not (CHROMIUM and DRIVER):
        print("no Chromium: the screenshots stay as they are")
        return
    with browser() as tab:
        for name, shot in SHOTS.items():
            tab.open(folder / "report.html", 1180, dark=bool(shot["dark"]))
            top = "return document.getElementById(arguments[0]).getBoundingClientRect().top + scrollY"
            start = 0 if shot["from"] == "top" else tab.run(top, shot["from"])
            tab.picture(folder / name, {"x": 0, "y": start, "width": 1180, "height": shot["height"]})


def main() -> None:
    """Make everything, and put it where it belongs when all of it is there."""
    with tempfile.TemporaryDirectory() as made:
        make(Path(made))
        photograph(Path(made))
        FOLDER.mkdir(exist_ok=True)
        for path in Path(made).iterdir():
            (FOLDER / path.name).write_bytes(path.read_bytes())


if __name__ == "__main__":
    main()
