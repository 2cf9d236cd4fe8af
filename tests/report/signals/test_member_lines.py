"""Members of a group as columns: which overlap, when their clients begin anew, and what they leave by."""

import numpy as np
import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.report.signals.member_lines import MemberLine, MemberLines
from kdissect.report.signals.named_rows import NamedRows


def lines(*spans: tuple[str, int, int], api: ApiKey = ApiKey.HEARTBEAT) -> MemberLines:
    """Return members by client, begin and end, in the order of their begins."""
    names = tuple(sorted({client for client, _, _ in spans}))
    of = np.array([names.index(client) for client, _, _ in spans], np.int64)
    first, last = (np.array([span[at] for span in spans], np.int64) for at in (1, 2))
    number = np.arange(len(spans))
    return MemberLines("g", NamedRows(of, names), number, number, first, last, np.full(len(of), api))


@pytest.mark.parametrize(
    ("spans", "overlap"),
    [
        ([], False),
        ([(1, 5)], False),
        ([(1, 5), (5, 9)], False),
        ([(1, 6), (5, 9)], True),
        ([(1, 9), (1, 9)], False),  # of which neither begins first
        ([(1, 2), (3, 9), (4, 5)], True),
    ],
)
def test_members_overlap_if_one_begins_before_another_ends(
    spans: list[tuple[int, int]], *, overlap: bool
) -> None:
    assert lines(*(("c", *span) for span in spans)).overlap() == overlap


def test_the_latest_begin_is_that_of_the_client() -> None:
    found = lines(("a", 1, 2), ("b", 3, 4), ("a", 5, 6))
    assert found.latest_begins.tolist() == [5, 3, 5]
    assert found.only(found.clients.equal("b")).latest_begins.tolist() == [3]


@pytest.mark.parametrize(
    ("api", "leaves", "shares"),
    [
        (ApiKey.HEARTBEAT, False, False),
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, True, False),
        (ApiKey.SHARE_GROUP_HEARTBEAT, True, True),
    ],
)
def test_heartbeats_tell_how_a_member_leaves(api: ApiKey, *, leaves: bool, shares: bool) -> None:
    found = lines(("a", 1, 2), api=api)
    assert [*found.lines()] == [MemberLine("a", "g", 0, 0, 1, 2, shares)]
    assert found.leave_by_heartbeat.tolist() == [leaves]
