"""Command lines as people type them: a capture without a command, `help`, and names that are nearly right.

`expand` turns the short forms into the full command line. `did_you_mean` names the nearest known word, so
that a wrong command, option, API or error comes with its correction. Both need nothing but the words
themselves.
"""

import difflib
import os
from collections.abc import Collection, Iterable, Sequence

DEFAULT_COMMAND = "analyze"
NEAR = 0.6
"""The similarity (0 to 1) from which on a name is suggested; transposed and missing letters stay above it."""


def expand(arguments: Sequence[str], commands: Collection[str]) -> list[str]:
    """Return the full command line: `FILE` is `analyze FILE`, and `help X` is `X --help`."""
    words = list(arguments)
    if words[:1] == ["help"]:
        return [*words[1:], "--help"]
    if words and words[0] not in commands and _is_capture(words[0]):
        return [DEFAULT_COMMAND, *words]
    return words


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'NAME'?` for the known name that is nearest to a word; empty if none is near.

    Case, and `-` instead of `_`, do not count.
    """
    names = {_plain(name): name for name in known}
    near = difflib.get_close_matches(_plain(word), names, n=1, cutoff=NEAR)
    if not near:
        near = [name for name in names if name.startswith(_plain(word))][:1] if len(word) > 2 else []
    return f"; did you mean {names[near[0]]!r}?" if near else ""


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")


def _is_capture(word: str) -> bool:
    """Return whether a word is a file, a directory, a URI or standard input rather than a command."""
    return word == "-" or "://" in word or os.path.exists(word) or (os.sep in word and word[:1] != "-")
