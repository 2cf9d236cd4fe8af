"""`kdissect completion`: the script that completes commands, options, files and names in a shell.

The script is made of the parser, once, by shtab, so a press of Tab starts no Python.
"""

import argparse
import sys
from collections.abc import Iterator

from kdissect.cli.arguments import build_parser

FILES = ("PATH", "FILE", "BEFORE", "AFTER")
"""Placeholders of arguments that name files."""

ADDED_LINES = {
    "zsh": {
        "  _describe 'kdissect commands' _commands\n": "  _files\n",
        "        who) _arguments -C -s $_shtab_kdissect_who_options ;;\n": (
            "        *) _arguments -C -s $_shtab_kdissect_analyze_options ;;\n"
        ),
    },
    "fish": {
        "function _shtab_kdissect_using\n  _shtab_kdissect_scan\n": (
            '  if test -z "$_shtab_kdissect_cmdpath"; and test $_shtab_kdissect_npos -gt 0\n'
            "    set -g _shtab_kdissect_cmdpath analyze\n"
            "  end\n"
        ),
        "complete -c kdissect -f\n": (
            "complete -c kdissect -n '_shtab_kdissect_using; and test $_shtab_kdissect_npos -eq 0' -F\n"
        ),
    },
}
"""Lines that follow a line of shtab's script, by shell: a capture without a command is analyzed."""


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
    script = shtab.complete(parser, arguments.shell)
    sys.stdout.write(_with_added_lines(script, arguments.shell))


def _with_added_lines(script: str, shell: str) -> str:
    """Return a script that also completes a capture without a command, as bash does anyway."""
    for line, following in ADDED_LINES.get(shell, {}).items():
        script = script.replace(line, line + following, 1)
    return script


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
