"""Text from captures made fit for a terminal: nothing in it may move the cursor, change colours or reorder the line.

Control characters (C0, C1), bidirectional overrides and other format characters, line and paragraph separators,
combining marks that no letter takes, private and unassigned code points are shown as escapes. What is left is cut to a
width in terminal columns, in which East Asian wide characters take two.
"""

import unicodedata

HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Mn", "Me", "Mc"}
"""Unicode general categories that are never sent to a terminal."""


OBEYED = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Those that may move the cursor or turn the line round; marks belong to the letter before them."""


def escaped(text: str, *, ascii_only: bool = False) -> str:
    r"""Give text with everything unprintable as \x1b or \u202e; with `ascii_only` also everything beyond ASCII."""
    return "".join(_shown(character, ascii_only) for character in unicodedata.normalize("NFC", text))


def _shown(character: str, ascii_only: bool) -> str:
    code = ord(character)
    if character == "\\":
        return "\\\\"
    if 0x20 <= code < 0x7F:
        return character
    if ascii_only or unicodedata.category(character) in HIDDEN or (character.isspace()):
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    return character


def visible(text: str) -> str:
    r"""Give text in which only what a terminal obeys is written as \x1b or \u202e: for sentences, whose words are ours.

    >>> visible("no such file: a\x9b31m")
    'no such file: a\\x9b31m'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(one, False) if unicodedata.category(one) in OBEYED else one for one in text)


def columns(text: str) -> int:
    """Give the width of escaped text in terminal columns."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def cut(text: str, width: int, ellipsis: str) -> str:
    """Give text in at most `width` columns; longer text keeps both ends, since names often differ in the last part."""
    if columns(text) <= width:
        return text
    room = max(width - columns(ellipsis), 0)
    tail = _first(text[::-1], room // 3)[::-1]
    return (_first(text, room - columns(tail)) + ellipsis + tail) if room else _first(ellipsis, width)


def _first(text: str, width: int) -> str:
    used = 0
    for at, character in enumerate(text):
        used += columns(character)
        if used > width:
            return text[:at]
    return text
