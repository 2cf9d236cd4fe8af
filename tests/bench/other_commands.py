"""The commands beside `analyze CAPTURE` that the benchmark runs as whole processes: tables, SQL, the page, a
dump, and a report on a part of the traffic."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench.commands import kdissect

QUERY = "select api_name, count(*), avg(latency_ns) from exchanges group by 1"
PLAIN = "analyze"
"""The command that others are compared with."""
EXPORTED = "exported"


class Command(NamedTuple):
    """A command line without its capture, and what it should take at most."""

    words: tuple[str, ...]
    goal_seconds: float | None = None
    """None: as long as `analyze` takes."""
    target: tuple[str, ...] = ()
    """The words that name a file or folder to write, below the folder of the benchmark."""


COMMANDS = {
    PLAIN: Command(("analyze", "--quiet")),
    "analyze --html": Command(("analyze", "--quiet"), 4.0, ("--html", "page.html")),
    "analyze --client": Command(("analyze", "--quiet", "--client", "chatty-0")),
    "analyze --topic": Command(("analyze", "--quiet", "--topic", "chatty")),
    "sql": Command(("sql", "--quiet", QUERY), 5.0),
    "export --table all": Command(("export", "--quiet", "--table", "all"), 6.0, ("--out", "tables")),
    "dump --format jsonl": Command(("dump", "--format", "jsonl"), 24.0),
}


def command_lines(path: Path, folder: Path) -> dict[str, list[str]]:
    """Return the whole command lines by name; what they write lies in a folder of its own below `folder`."""
    program = kdissect(path)[:4]
    found = {}
    for name, command in COMMANDS.items():
        written = [str(folder / EXPORTED / word) if word[0] != "-" else word for word in command.target]
        found[name] = [*program, *command.words, str(path), *written]
    return found


def emptied(folder: Path) -> None:
    """Remove what the commands wrote, and make the folder anew."""
    shutil.rmtree(folder / EXPORTED, ignore_errors=True)
    (folder / EXPORTED).mkdir()


def page(row: dict[str, Any] | None) -> Iterator[str]:
    """Yield the table of these commands."""
    if not row:
        return
    yield ""
    yield "## Other commands"
    yield ""
    yield (
        f"Whole processes on {row['capture']} ({row['told']}), in turns. A report on a part of the traffic "
        f"should take no longer than the report on all of it. The query is `{QUERY}`."
    )
    yield ""
    yield "| command | seconds | goal | processor seconds | peak, all processes |"
    yield "| --- | --- | --- | --- | --- |"
    for name, command in COMMANDS.items():
        goal = row["seconds"][PLAIN] if command.goal_seconds is None else command.goal_seconds
        told = "" if name == PLAIN else f"{goal:.1f}"
        yield (
            f"| `{name}` | {row['seconds'][name]:.1f} | {told} | {row['processor_seconds'][name]:.1f} "
            f"| {row['peak_mib'][name]:,.0f} MiB |"
        )
