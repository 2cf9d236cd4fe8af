"""Examples of the help are commands that the parser takes."""

import shlex

import pytest

from kdissect.cli.arguments import build_parser, parse
from kdissect.cli.help_examples import EXAMPLES

LINES = [(name, line) for name, examples in EXAMPLES.items() for line, _ in examples]


@pytest.mark.parametrize(("name", "line"), LINES)
def test_an_example_is_a_command(name: str, line: str) -> None:
    words = shlex.split(line.rpartition("| ")[2].partition(" > ")[0])
    assert words[0] == "kdissect"
    arguments = parse(["analyze", *words[1:]] if words[1] == "incident.pcap" else words[1:])
    assert arguments.command == name.split(maxsplit=1)[0]


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_help_of_a_command_ends_with_them(name: str) -> None:
    parser = build_parser()
    for word in name.split():
        parser = parser.commands[word]
    assert f"  {EXAMPLES[name][0][0]}\n" in parser.format_help()


def test_every_command_but_a_few_has_one() -> None:
    commands = set(build_parser().commands)
    assert commands - {name.split()[0] for name in EXAMPLES} == set()
