"""Command lines as people type them: a capture without a command, and `help`.

`expand` turns these short forms into the full command line. `text.did_you_mean` names the nearest known word
for names that are nearly right.
"""

import os
from collections.abc import Collection, Sequence

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
