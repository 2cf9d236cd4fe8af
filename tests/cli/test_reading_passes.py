"""`cli.reading_passes`: where passes end, and how much an interrupt left unread."""

from pathlib import Path

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import CaptureFile
from kdissect.cli.reading_passes import ReadingPasses

CAPTURE = str(Path(__file__).parents[2] / "captures" / "expired.pcapng")
SPLITS = index_captures([CaptureFile(CAPTURE, CAPTURE)], 50_000).splits


def test_passes_that_come_to_their_ends_leave_nothing_unread() -> None:
    passes = ReadingPasses(SPLITS, "reading packets", "dissecting")
    for _ in range(2):
        ends_before = passes.begin(SPLITS, lambda: False)
        assert [ends_before(split) for split in SPLITS] == [False] * len(SPLITS)
    assert passes.interruption == ""


def test_the_pass_that_read_least_says_how_much_was_read() -> None:
    stopped = [False]
    passes = ReadingPasses(SPLITS, "reading packets", "dissecting")
    first = passes.begin(SPLITS, lambda: stopped[0])
    assert not first(SPLITS[0])
    assert not first(SPLITS[1])
    stopped[0] = True
    assert first(SPLITS[2])
    second = passes.begin(SPLITS[:2], lambda: False)
    assert [second(split) for split in SPLITS[:2]] == [False, False]
    assert len(SPLITS) == 5
    assert passes.interruption == "interrupted: only 97.9 KiB of 202 KiB were read"
