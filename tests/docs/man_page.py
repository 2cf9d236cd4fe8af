"""docs/kdissect.1, the manual page, from the parser itself: every command with its options and examples.

The form is man(7). A backslash, and a dot or quote at the beginning of a line, are escaped.
"""

import argparse
import re
from collections.abc import Iterator

from kdissect import __version__
from kdissect.cli.arguments import build_parser
from kdissect.cli.help_examples import EXAMPLES
from tests.docs.blocks import DOCS
from tests.docs.command_line import _given, _help, _summary, _usage, commands

MAN_PAGE = DOCS / "kdissect.1"
EXIT_CODE = re.compile(r"^\| ([\d, ]+) \| (.+) \|$", re.MULTILINE)
"""A row of the table of exit codes in docs/cli.md."""


def man_page() -> str:
    """Return the manual page."""
    return "\n".join(_lines()) + "\n"


def stale_man_page() -> str | None:
    """Return the manual page if the file differs from it; None if it is up to date."""
    text = man_page()
    return text if not MAN_PAGE.exists() or MAN_PAGE.read_text("utf-8") != text else None


def _lines() -> Iterator[str]:
    yield f'.TH KDISSECT 1 "" "kdissect {__version__}" "User Commands"'
    yield ".SH NAME"
    yield "kdissect \\- explain and replay Apache Kafka traffic from packet captures"
    yield ".SH SYNOPSIS"
    yield from (".B kdissect", "COMMAND [options] PATH...", ".br", ".B kdissect", "FILE")
    yield ".SH DESCRIPTION"
    yield _escaped(build_parser().description or "")
    yield ".SH COMMANDS"
    for name in commands():
        yield from (".TP", f".B {_escaped(name)}", _escaped(_summary(name)))
    for name, command in commands().items():
        yield from _command(name, command)
    yield ".SH EXIT STATUS"
    for code, meaning in EXIT_CODE.findall((DOCS / "cli.md").read_text("utf-8")):
        yield from (".TP", f".B {code}", _escaped(meaning.replace("`", "")))


def _command(name: str, command: argparse.ArgumentParser) -> Iterator[str]:
    yield f".SH KDISSECT {name.upper()}"
    yield _escaped(command.description or _summary(name))
    positional = [action for action in command._actions if not action.option_strings]
    for action in (*positional, *_given(command)):
        yield from (".TP", f".B {_escaped(_usage(action))}", _escaped(_help(action)))
    for line, what in EXAMPLES.get(name, ()):
        yield from (".PP", _escaped(f"{what[:1].upper()}{what[1:]}:"), ".PP", ".RS", ".nf")
        yield from (_escaped(line), ".fi", ".RE")


def _escaped(text: str) -> str:
    plain = text.replace("\\", "\\e").replace("-", "\\-").replace("\n", " ")
    return f"\\&{plain}" if plain[:1] in (".", "'") else plain
