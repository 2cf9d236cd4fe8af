"""`kdissect completion`: the script that completes commands, options, files and names in a shell.

The script is made of the parser, once, by shtab, so a press of Tab starts no Python.
"""

import argparse
import sys
from collections.abc import Iterator

from kdissect.cli.arguments import build_parser

FILES = ("PATH", "FILE", "BEFORE", "AFTER")
"""Placeholders of arguments that name files."""


def completion(arguments: argparse.Namespace) -> None:
    """Run the command."""
    import shtab

    parser = build_parser()
    for action in _actions(parser):
        metavar = str(action.metavar).rstrip(".")
        if metavar in FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined] # how shtab is told
        elif metavar == "DIR":
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined] # how shtab is told
        elif names := _names_of(action):
            action.choices = names
    sys.stdout.write(shtab.complete(parser, arguments.shell))


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:  # noqa: SLF001 - argparse has no public list
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - nor a public type of it
            for inner in action.choices.values():
                yield from _actions(inner)
        else:
            yield action


def _names_of(action: argparse.Action) -> list[str]:
    """Return the names that an option takes but does not list as choices."""
    from kdissect.protocol.error_codes import CODES
    from kdissect.protocol.schema.registry import APIS

    if action.option_strings == ["--api"]:
        return [api.name for api in APIS.values()]
    if action.option_strings == ["--error"]:
        return ["any", *CODES]
    return []
