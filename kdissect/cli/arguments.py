"""The parser of the command line. Importing this module loads nothing that takes time.

`expand` turns short forms, a capture without a command and `help`, into the full command line.
`text.did_you_mean` names the nearest known word for names that are nearly right.
"""

import argparse
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import import_module
from typing import NoReturn

from kdissect import __version__
from kdissect.cli.help_examples import add_examples
from kdissect.cli.options import (
    EVERY_TABLE,
    RANKINGS,
    add_color,
    add_common,
    add_ranking,
    count_argument,
)
from kdissect.cli.payload_options import add_schemas
from kdissect.cli.secret_sources import secret_among
from kdissect.protocol.releases import RELEASES
from kdissect.text import did_you_mean, escape_control

FORMATS = ("parquet", "jsonl", "csv")
SHELLS = ("bash", "zsh", "fish")


class _Parser(argparse.ArgumentParser):
    """A parser that reports a wrong argument in one sentence, without the usage."""

    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"{self.prog}: {escape_control(message)} (try {self.prog} --help)\n")
        raise SystemExit(2)

    @property
    def commands(self) -> "dict[str, _Parser]":
        """Return the parsers of its commands by name; none for a parser of one command."""
        groups = (action.choices for action in self._actions if isinstance(action.choices, Mapping))
        return {name: parser for group in groups for name, parser in group.items()}

    @property
    def options(self) -> list[str]:
        """Return its long options."""
        return [name for action in self._actions for name in action.option_strings if name[:2] == "--"]


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the parsed arguments. Exit with 2 if they are wrong, and with 0 after --help and --version.

    `kdissect FILE` and `kdissect help` are short forms (see `expand`).
    """
    words = expand(arguments, COMMANDS)
    parser = build_parser([word for word in words if word in COMMANDS][:1])
    if refusal := secret_among(arguments):
        parser.error(refusal)
    _check_command(parser, words)
    found, unknown = parser.parse_known_args(words)
    if unknown:
        _refuse(parser, words, unknown)
    return found


def _check_command(parser: _Parser, words: Sequence[str]) -> None:
    """Exit with 2 if a word that stands in the place of a command is none of them."""
    current = _command_of(parser, words)
    depth = len(current.prog.split()) - 1
    if current.commands and len(words) > depth and words[depth][:1] != "-":
        wrong = words[depth]
        what = "a command" if depth else "a command or a file"
        known = ", ".join(current.commands)
        current.error(f"{wrong!r} is not {what}{did_you_mean(wrong, current.commands)} (commands: {known})")


def _refuse(parser: _Parser, words: Sequence[str], unknown: Sequence[str]) -> NoReturn:
    """Exit with 2 because of arguments that no option and no position takes.

    Values of unknown options are not repeated: one may be a password.
    """
    current = _command_of(parser, words)
    names = [word.partition("=")[0] for word in unknown if word[:1] == "-"]
    wrong = next((name for name in names if name[:2] == "--"), "")
    hint = did_you_mean(wrong, current.options) if wrong else ""
    current.error(f"unrecognized arguments: {' '.join(names or unknown)}{hint}")


def _command_of(parser: _Parser, words: Sequence[str]) -> _Parser:
    """Return the parser of the command, or of the command of a command, that the first words name."""
    for word in words:
        if word not in parser.commands:
            break
        parser = parser.commands[word]
    return parser


def build_parser(names: Collection[str] | None = None) -> _Parser:
    """Return the parser of all commands, with the options of those in `names`, or of each.

    The options of all commands take 0.02 s, and Java waits for them. The documentation is made from all.
    """
    parser = _Parser(
        prog="kdissect",
        description="Dissect, explain and replay Apache Kafka traffic from packet captures. "
        "'kdissect FILE' is short for 'kdissect analyze FILE'; 'kdissect help COMMAND' shows a "
        "command's options.",
    )
    parser.add_argument("--version", action="version", version=f"kdissect {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    for name, (purpose, add_options) in COMMANDS.items():
        command = commands.add_parser(name, help=purpose)
        if names is None or name in names:
            add_options(command)
    _add_examples(parser, "")
    return parser


def _add_examples(parser: _Parser, name: str) -> None:
    add_examples(parser, name)
    for command, inner in parser.commands.items():
        _add_examples(inner, f"{name} {command}".strip())


def _add_analyze(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Report on the Kafka traffic of captures: who did what, how fast, and what went wrong."
    )
    add_common(parser)
    add_color(parser)
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="output format (default: text)"
    )
    add_ranking(parser)
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="also write report.txt (all sections) and report.json into this directory or URI",
    )
    parser.add_argument(
        "--html", metavar="FILE", help="also write the report as one self-contained HTML page"
    )


def _add_export(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write the tables behind the report: connections, exchanges, "
        "partitions, and events of groups and transactions."
    )
    add_common(parser)
    add_schemas(parser)
    parser.add_argument(
        "--table",
        required=True,
        action="append",
        choices=(*EVERY_TABLE, "all"),
        help="table to write",
    )
    parser.add_argument("--format", choices=FORMATS, default="parquet", help="file format (default: parquet)")
    parser.add_argument(
        "--out",
        required=True,
        metavar="DIR",
        help="directory or URI to create; each table is a directory in it; - writes one table as CSV or "
        "JSON lines to standard output",
    )
    parser.add_argument(
        "--one-file", action="store_true", help="write each table as one file: DIR/exchanges.parquet"
    )
    parser.add_argument(
        "--times",
        choices=("ns", "iso"),
        default="ns",
        help="times as nanoseconds since the epoch, or as text: 2026-05-01T12:00:05.632000000Z (default: ns)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace DIR if it holds nothing but tables")


def _add_sql(parser: argparse.ArgumentParser) -> None:
    parser.description = "Run a Spark SQL query over the tables."
    parser.add_argument(
        "query",
        metavar="QUERY",
        help="query, such as 'SELECT api_name, count(*) FROM exchanges GROUP BY ALL'",
    )
    add_common(parser)
    add_schemas(parser)
    add_color(parser)
    parser.add_argument(
        "--format", choices=("text", "csv", "jsonl"), default="text", help="output format (default: text)"
    )
    parser.add_argument(
        "--limit",
        type=count_argument,
        metavar="N",
        help="stop after N rows (default for text: 1000)",
    )
    parser.add_argument(
        "--unrestricted-sql",
        action="store_true",
        help="run any SQL, which may read and write files and start programs with your rights "
        "(default: one SELECT over the tables)",
    )


def _add_who(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "List who writes a topic and who reads it: clients, addresses, software, groups, rates."
    )
    parser.add_argument("named", metavar="TOPIC", help="topic; * and ? are wildcards")
    add_common(parser)
    add_color(parser)
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="output format (default: text)"
    )


def _add_diff(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Compare two captures, or two JSON reports of analyze: what got "
        "slower, what fails now, which clients changed."
    )
    parser.add_argument("before", metavar="BEFORE", help="capture, directory of captures, or JSON report")
    parser.add_argument("after", metavar="AFTER", help="capture, directory of captures, or JSON report")
    add_common(parser, paths=False)
    add_color(parser)
    parser.add_argument(
        "--by",
        choices=RANKINGS[:-1],
        help="what to compare (default: api, or the ranking of the JSON report)",
    )
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="output format (default: text)"
    )


def _add_ready(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "List what a newer Kafka would break: API versions and message "
        "formats it no longer serves, and who uses them."
    )
    add_common(parser)
    add_color(parser)
    parser.add_argument(
        "--for",
        dest="release",
        choices=RELEASES,
        default=RELEASES[0],
        help="Kafka release to check against (default: 4.0)",
    )
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="output format (default: text)"
    )


def _add_completion(parser: argparse.ArgumentParser) -> None:
    parser.description = "Print the completion of kdissect for a shell."
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish")


def _options_of(module: str, name: str) -> Callable[[argparse.ArgumentParser], None]:
    """Return a function that adds options, of a module that is loaded when it is called."""

    def add(parser: argparse.ArgumentParser) -> None:
        getattr(import_module(f"kdissect.cli.{module}"), name)(parser)

    return add


COMMANDS: Mapping[str, tuple[str, Callable[[argparse.ArgumentParser], None]]] = {
    "analyze": ("report on the Kafka traffic of captures", _add_analyze),
    "export": ("write the tables behind the report", _add_export),
    "sql": ("query the tables in Spark SQL", _add_sql),
    "who": ("list who writes and who reads a topic", _add_who),
    "diff": ("compare two captures or two reports", _add_diff),
    "ready": ("list what a newer Kafka would break", _add_ready),
    "dump": ("show every exchange in time order", _options_of("dump", "add_dump")),
    "slice": ("write the packets of chosen exchanges as a capture", _options_of("slice", "add_slice")),
    "replay": (
        "send captured traffic to another cluster and compare the responses",
        _options_of("replay_options", "add_replay"),
    ),
    "watch": ("follow captures that never end", _options_of("watch_options", "add_watch")),
    "report": ("report on the last hour or day of a watch", _options_of("report", "add_report")),
    "schema": ("show which APIs, versions and fields are known", _options_of("schema", "add_schema")),
    "completion": ("print the completion for bash, zsh or fish", _add_completion),
}
"""For each command its purpose, and what adds its options."""

DEFAULT_COMMAND = "analyze"


def expand(arguments: Sequence[str], commands: Collection[str]) -> list[str]:
    """Return the full command line: `FILE` is `analyze FILE`, and `help X` is `X --help`."""
    words = list(arguments)
    if words[:1] == ["help"]:
        return [*words[1:], "--help"]
    if words and words[0] not in commands and _is_capture(words[0]):
        return [DEFAULT_COMMAND, *words]
    return words


def _is_capture(word: str) -> bool:
    """Return whether a word is a file, a directory, a URI or standard input rather than a command."""
    return word == "-" or "://" in word or os.path.exists(word) or (os.sep in word and word[:1] != "-")
