"""Keys of a terminal: the bytes that it sends become names of keys.

In come bytes as they are read, cut anywhere. Out come keys: a character, or one of the names in `NAMED` and
`SEQUENCES`. Escape sequences that have no name here, and text that is pasted, are no keys and are dropped: a
pasted text must not do what its letters stand for.
"""

import codecs
import re

ESCAPE = "\x1b"
NAMED = {"\t": "tab", "\r": "enter", "\n": "enter", "\x7f": "backspace", "\b": "backspace"}
SEQUENCES = {
    "[A": "up",
    "[B": "down",
    "OA": "up",
    "OB": "down",
    "[5~": "page_up",
    "[6~": "page_down",
    "[H": "home",
    "[F": "end",
    "OH": "home",
    "OF": "end",
}
"""The text behind the escape character, as xterm and its like send it in both modes of the cursor keys."""

PASTE_BEGIN, PASTE_END = "[200~", "[201~"
PASTE_MARKS_ON, PASTE_MARKS_OFF = "\x1b[?2004h", "\x1b[?2004l"
"""Written to a terminal, so that it marks what is pasted, and does not any more."""

SEQUENCE = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|O[ -~]|[^\[O\x1b])", re.DOTALL)
UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|O)?")
MOST_WAITING = 64  # characters of a sequence that does not end
LONGEST_PAUSE = 8
"""A paste in which nothing comes for so many looks is over, also without its mark."""


class KeyDecoder:
    """See the module's text."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._waiting = ""
        self._pastes = False
        self._idle = 0

    @property
    def waits(self) -> bool:
        """Return whether an escape character came that may begin a sequence, or be the key itself."""
        return bool(self._waiting)

    def feed(self, data: bytes) -> list[str]:
        """Return the keys that are complete with these bytes."""
        self._idle = 0
        text, keys, at = self._waiting + self._decode(data), [], 0
        self._waiting = ""
        while at < len(text):
            if text[at] != ESCAPE:
                keys += self._plain(text[at])
                at += 1
            elif match := SEQUENCE.match(text, at):
                keys += self._sequence(match[1])
                at = match.end()
            elif UNFINISHED.fullmatch(text, at) and len(text) - at < MOST_WAITING:
                self._waiting = text[at:]
                break
            else:  # two in a row, or a sequence that nobody knows
                keys += self._plain(ESCAPE)
                at += 1
        return keys

    def flush(self) -> list[str]:
        """Return the key that waited: nothing came for a moment, so nothing follows the escape character."""
        waited, self._waiting = self._waiting, ""
        keys = ["escape"] if waited == ESCAPE and not self._pastes else []
        self._idle += 1
        self._pastes = self._pastes and self._idle < LONGEST_PAUSE
        return keys

    def _plain(self, character: str) -> list[str]:
        if self._pastes:
            return []
        if character == ESCAPE:
            return ["escape"]
        if character in NAMED:
            return [NAMED[character]]
        return [character] if character.isprintable() else []

    def _sequence(self, text: str) -> list[str]:
        if text in (PASTE_BEGIN, PASTE_END):
            self._pastes = text == PASTE_BEGIN
            return []
        return [SEQUENCES[text]] if text in SEQUENCES and not self._pastes else []
