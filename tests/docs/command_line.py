"""The blocks of docs/cli.md: commands, options and filters, from the parser itself.

Options that several commands share are described once: those of the commands that run on Spark, those of
`replay`, and the filters. A command's own block has what is left.
"""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial

from kdissect.cli.arguments import build_parser
from kdissect.cli.filter_options import add_filters
from tests.docs.markdown import table

Commands = Mapping[str, argparse.ArgumentParser]
ON_SPARK = ("analyze", "who", "diff", "ready", "sql", "export")
SENDING = ("replay plan", "replay prepare", "replay run", "replay try")


def blocks() -> Mapping[str, Callable[[], str]]:
    """Return the blocks: the list of commands, what several share, and one for each command."""
    made: dict[str, Callable[[], str]] = {
        "commands": _list,
        "options on Spark": partial(_shared_block, ON_SPARK),
        "options of replay": partial(_shared_block, SENDING),
        "filters": lambda: _options(_filters()),
    }
    return made | {f"command {name}": partial(_command, name) for name in commands()}


@cache
def commands() -> Commands:
    """Return the parser of every command; a command of a command has both names, as in `replay run`."""
    return dict(_below(build_parser(), ""))


def _below(parent: argparse.ArgumentParser, name: str) -> Iterable[tuple[str, argparse.ArgumentParser]]:
    choices = [action for action in parent._actions if isinstance(action, argparse._SubParsersAction)]
    if not choices:
        yield name, parent
    for action in choices:
        for word, child in action.choices.items():
            yield from _below(child, f"{name} {word}".strip())


def _list() -> str:
    rows = [(f"[`{name}`](#kdissect-{name.replace(' ', '-')})", _summary(name)) for name in commands()]
    return table(("command", "what it does"), rows)


def _summary(name: str) -> str:
    parent = build_parser()
    for word in name.split():
        action = next(a for a in parent._actions if isinstance(a, argparse._SubParsersAction))
        text = next(choice.help for choice in action._choices_actions if choice.dest == word)
        parent = action.choices[word]
    return text or ""


def _command(name: str) -> str:
    own, command = _own(name), commands()[name]
    positional = " ".join(_positional(action) for action in command._actions if not action.option_strings)
    parts = [f"    kdissect {name} [options] {positional}".rstrip()]
    if command.description:
        parts.insert(0, command.description)
    arguments = [action for action in command._actions if not action.option_strings]
    parts.append(_options([*arguments, *own]))
    return "\n\n".join(parts)


def _own(name: str) -> list[argparse.Action]:
    """Return the options of a command that no other block has."""
    group = next((names for names in (ON_SPARK, SENDING) if name in names), ())
    elsewhere = {_key(action) for action in (*(_shared(group) if group else ()), *_filters_of(name))}
    return [action for action in _given(commands()[name]) if _key(action) not in elsewhere]


def _shared_block(names: Sequence[str]) -> str:
    parser_ = commands()[names[0]]
    shared = {_key(action) for action in _shared(names)} - {_key(a) for a in _filters_of(names[0])}
    blocks = []
    for group in parser_._action_groups:
        actions = [action for action in group._group_actions if _key(action) in shared]
        if actions:
            title = None if group.title in ("options", "positional arguments") else group.title
            blocks.append((f"**{title}**\n\n" if title else "") + _options(actions))
    return "\n\n".join(blocks)


def _shared(names: Sequence[str]) -> list[argparse.Action]:
    """Return the options that all these commands have, as the first one has them."""
    keys = set.intersection(*({_key(action) for action in _given(commands()[name])} for name in names))
    return [action for action in _given(commands()[names[0]]) if _key(action) in keys]


@cache
def _filters() -> tuple[argparse.Action, ...]:
    alone = argparse.ArgumentParser(add_help=False)
    add_filters(alone)
    return tuple(alone._actions)


def _filters_of(name: str) -> list[argparse.Action]:
    """Return the filters of a command that has all of them; one that has only some describes them itself."""
    keys = {_key(action) for action in _filters()}
    found = [action for action in commands()[name]._actions if _key(action) in keys]
    return found if len(found) == len(keys) else []


def _given(command: argparse.ArgumentParser) -> list[argparse.Action]:
    return [
        action
        for action in command._actions
        if action.option_strings and action.dest != "help" and action.help != argparse.SUPPRESS
    ]


def _key(action: argparse.Action) -> tuple[object, ...]:
    return (*action.option_strings, action.dest, action.help, str(action.choices))


def _options(actions: Iterable[argparse.Action]) -> str:
    return table(("option", "meaning"), [(f"`{_usage(action)}`", _help(action)) for action in actions])


def _positional(action: argparse.Action) -> str:
    name = str(action.metavar or action.dest)
    return {"+": f"{name}...", "?": f"[{name}]"}.get(str(action.nargs), name)


def _usage(action: argparse.Action) -> str:
    if not action.option_strings:
        return _positional(action)
    name = ", ".join(action.option_strings)
    if action.nargs == 0:
        return name
    value = str(action.metavar or "|".join(map(str, action.choices or [action.dest.upper()])))
    return f"{name} {value}{'...' if action.nargs == '+' else ''}"


def _help(action: argparse.Action) -> str:
    """Return the help of an option, with what the parser knows besides: default, repeatable, required."""
    text = argparse.HelpFormatter("kdissect")._expand_help(action)
    also = []
    if action.option_strings and isinstance(action.default, str | int | float) and action.nargs != 0:
        also += [f"default: {action.default}"] if action.default and "default" not in text else []
    if isinstance(action, argparse._AppendAction) and "repeat" not in text:
        also.append("repeatable")
    if action.option_strings and action.required:
        also.append("required")
    return f"{text} ({', '.join(also)})" if also else text
