"""Keys come out as they were pressed, however their bytes are cut."""

import pytest

from kdissect.live.keys import LONGEST_PAUSE, KeyDecoder

PRESSED: dict[str, tuple[bytes, list[str]]] = {
    "letters": (b"ps1", ["p", "s", "1"]),
    "names": (b"\t\r\n\x7f\x08", ["tab", "enter", "enter", "backspace", "backspace"]),
    "arrows": (b"\x1b[A\x1b[B\x1bOA\x1bOB", ["up", "down", "up", "down"]),
    "pages": (b"\x1b[5~\x1b[6~\x1b[H\x1bOF", ["page_up", "page_down", "home", "end"]),
    "other text": ("äq".encode(), ["ä", "q"]),
    "a key with Alt": (b"\x1bqp", ["p"]),
    "sequences without a name": (b"\x1b[15~\x1b[1;5C\x1bOPs", ["s"]),
    "what is pasted": (b"\x1b[200~topic-queue\x1bq\r\x1b[201~p", ["p"]),
    "control characters": (b"\x00\x01p", ["p"]),
    "wrong UTF-8": (b"\xffp", ["\ufffd", "p"]),
}


@pytest.mark.parametrize("name", PRESSED)
def test_keys_are_told_apart(name: str) -> None:
    data, keys = PRESSED[name]
    assert KeyDecoder().feed(data) == keys


@pytest.mark.parametrize("name", PRESSED)
def test_bytes_may_be_cut_anywhere(name: str) -> None:
    data, keys = PRESSED[name]
    for cut in range(len(data) + 1):
        decoder = KeyDecoder()
        assert decoder.feed(data[:cut]) + decoder.feed(data[cut:]) == keys
    single = KeyDecoder()
    assert [key for byte in data for key in single.feed(bytes([byte]))] == keys


def test_an_escape_alone_is_a_key_when_nothing_follows() -> None:
    decoder = KeyDecoder()
    assert decoder.feed(b"\x1b") == []
    assert decoder.waits
    assert decoder.flush() == ["escape"]
    assert not decoder.waits
    assert decoder.flush() == []
    assert decoder.feed(b"\x1b\x1b[A") == ["escape", "up"]


def test_a_sequence_that_does_not_end_is_given_up() -> None:
    decoder = KeyDecoder()
    decoder.feed(b"\x1b[" + b"1" * 200)
    assert not decoder.waits
    assert decoder.feed(b"\x1b[A") == ["up"]


def test_a_paste_that_does_not_end_is_over_after_a_pause() -> None:
    decoder = KeyDecoder()
    assert decoder.feed(b"\x1b[200~topic") == []
    for _ in range(LONGEST_PAUSE - 1):
        decoder.flush()
    assert decoder.feed(b"q") == []
    for _ in range(LONGEST_PAUSE):
        decoder.flush()
    assert decoder.feed(b"q") == ["q"]
