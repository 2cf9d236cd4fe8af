"""Records open behind gaps and key changes, and trials are limited."""

import pytest

from kdissect.streams.tls.key_state import MOST_TRIALS, SMALLEST_RECORD, Opener
from kdissect.streams.tls.record_protection import Opened, Protection

HEADER = b"\x17\x03\x03\0\0"


class Marked(Protection):
    """Opens a record that has its keys' name and the right number."""

    def __init__(self, name: str) -> None:
        self.name = name

    def open(self, number: int, header: bytes, fragment: bytes) -> Opened | None:
        return (23, fragment) if fragment == f"{self.name}{number}".encode() else None


def opened(opener: Opener, record: str, broken: int = 0, gone: int = 0) -> tuple[int, bool] | None:
    found = opener.open(HEADER, record.encode(), broken, gone)
    return None if found is None else (found.missed, found.new_keys)


def test_records_open_in_order() -> None:
    opener = Opener([Marked("a")])
    assert [opened(opener, record) for record in ("a0", "a1", "a1", "a2")] == [
        (0, False),
        (0, False),
        None,
        (0, False),
    ]


@pytest.mark.parametrize(("broken", "gone"), [(3, 0), (0, 3 * SMALLEST_RECORD), (1, 2 * SMALLEST_RECORD)])
def test_as_many_numbers_are_tried_as_may_be_missing(broken: int, gone: int) -> None:
    assert opened(Opener([Marked("a")]), "a3", broken, gone) == (3, False)
    assert opened(Opener([Marked("a")]), "a4", broken, gone) is None


def test_the_keys_that_come_next_are_tried_and_kept() -> None:
    opener = Opener([Marked("a"), Marked("b"), Marked("c")])
    assert opened(opener, "a0") == (0, False)
    assert opened(opener, "b0") == (0, True)
    assert opened(opener, "a1") is None
    opener.next_keys()
    assert opened(opener, "c0") == (0, False)
    opener.change(Marked("d"))
    assert opened(opener, "d0") == (0, False)


def test_it_gives_up_after_too_many_trials() -> None:
    opener = Opener([Marked("a")])
    while not opener.exhausted:
        assert opened(opener, "x", broken=MOST_TRIALS) is None
    assert opened(opener, "x") is None
