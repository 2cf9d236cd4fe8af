"""`replay.disposition`: exactly one end for each request."""

from __future__ import annotations

from collections import Counter

import pytest

from kdissect.replay.disposition import SENT, SKIPPED, Disposition, Unaccounted, check, sums


def test_every_disposition_is_either_sent_or_skipped() -> None:
    assert sorted((*SENT, *SKIPPED)) == sorted(Disposition)
    assert not set(SENT) & set(SKIPPED)


def test_the_sum_is_checked_and_reported() -> None:
    counts = Counter({Disposition.ANSWERED: 3, Disposition.RETRY: 2})
    check(5, counts)
    with pytest.raises(Unaccounted, match="6 requests were captured, but 5"):
        check(6, counts)
    found = sums(counts)
    assert (found["captured"], found["sent"], found["skipped"]) == (5, 3, 2)
