"""`replay.target.share_sessions`, against a target on paper."""

from __future__ import annotations

import pytest

from kdissect.replay.target.share_sessions import AcknowledgedRun, OwnShareSession
from tests.helpers.paper_shares import (
    ACCEPT,
    REJECT,
    RELEASE,
    RENEW,
)


@pytest.mark.parametrize(
    ("runs", "held", "expected"),
    [
        ([(4, ACCEPT), (2, RELEASE)], [(10, 12)], [[ACCEPT, ACCEPT, RELEASE]]),
        ([(1, ACCEPT)], [(1, 2), (5, 5)], [[ACCEPT, ACCEPT], [ACCEPT]]),
        ([(1 << 62, REJECT)], [(0, 1)], [[REJECT, REJECT]]),
        ([(1, 0)], [(3, 3)], [[ACCEPT]]),  # a gap there is a record here
        ([(1, RENEW), (1, ACCEPT)], [(3, 4)], [[RENEW, ACCEPT]]),
        ([], [(3, 4)], []),
        ([(1, ACCEPT)], [], []),
    ],
)
def test_what_is_held_is_acknowledged_in_captured_proportions(
    runs: list[tuple[int, int]], held: list[tuple[int, int]], expected: list[list[int]]
) -> None:
    session = OwnShareSession(acquired={("t", 0): list(held)})
    batches = session.acknowledge(("t", 0), [AcknowledgedRun(*run) for run in runs], renewing=True)
    assert [each["acknowledge_types"] for each in batches] == expected
    assert [(each["first_offset"], each["last_offset"]) for each in batches] == (held if expected else [])
    assert session.acquired.get(("t", 0), []) == ([(3, 3)] if any(RENEW in each for each in expected) else [])
