"""`tests.lab.replayed` and `tests.lab.contents`: what differs between two clusters is seen and counted."""

from __future__ import annotations

from kdissect.replay.results.run_checks import Pair
from tests.lab.contents import Seen, differing_commits, equal_partitions
from tests.lab.replayed import TARGETS, Observed, Way, assigned_members, compare_observed, row

WRITTEN = [Seen(0, "a", "1"), Seen(1, "b", "2"), Seen(2, "a", "3"), Seen(4, "a", "5")]  # 3 is a marker


def test_records_of_two_writers_may_change_places_and_those_of_one_may_not() -> None:
    swapped = [Seen(0, "b", "2"), *(Seen(1 + n, "a", each) for n, each in enumerate("135"))]
    reordered = [*(Seen(n, "a", each) for n, each in enumerate("315")), Seen(3, "b", "2")]
    assert equal_partitions({"t-0": WRITTEN}, {"t-0": swapped}) == ["t-0"]
    for found in ({"t-0": reordered}, {"t-0": WRITTEN[:-1]}, {"t-0": [*WRITTEN, WRITTEN[0]]}, {}):
        assert equal_partitions({"t-0": WRITTEN}, found) == []


def test_a_commit_is_as_far_as_the_records_before_it() -> None:
    committed, target = {"g": {"t-0": 4}}, [Seen(n, "a", "1") for n in range(4)]  # no marker there
    for offset, differing in ((3, {}), (4, {"g t-0": 1}), (1, {"g t-0": -2})):
        found = differing_commits(committed, {"t-0": WRITTEN}, {"g": {"t-0": offset}}, {"t-0": target})
        assert found == differing
    assert differing_commits(committed, {"t-0": WRITTEN}, {}, {"t-0": target}) == {"g t-0": -3}


def test_a_row_names_what_an_independent_client_found_different() -> None:
    both = {"read_uncommitted": {"t-0": WRITTEN}, "read_committed": {"t-0": WRITTEN[:1]}}
    found = {"read_uncommitted": {"t-0": WRITTEN}, "read_committed": {"t-0": WRITTEN}}
    seen = compare_observed(both, {"g": {"t-0": 4}}, found, {"g": {"t-0": 1}})
    assert seen == Observed(
        ("1 of 1", "0 of 1"),
        "0 of 1",
        ("read_committed t-0: 4 records instead of 1", "commit of g t-0: -2 records"),
    )
    report = {
        "accounting": {"sent": 7, "captured": 9},
        "records": {
            "topics": [{"topic": "t", "captured": 4, "replayed": 3}],
            "fetched_captured": 10,
            "fetched_replayed": 12,
            "amplification": {"reasons": [{"records": 2, "reason": "in responses that were empty"}]},
        },
        "lag": {"own_ms": {"p99": 1.25}},
        "because": ["1 Produce: NONE became closed"],
        "verdict": "diverged",
        "members": (3, 2),
    }
    assert row(TARGETS[0], Way("asap", "full"), report, seen, 12.4) == (
        "| 4.4.0, 1 broker | asap | full | 7 of 9 | 3 of 4 of t | 1 of 1 | 0 of 1 | 12 of 10 (+20.0%) "
        "| 0 of 1 | 2 of 3 | diverged | 1.2 ms | 12 s | 1 Produce: NONE became closed; read_committed t-0: "
        "4 records instead of 1; commit of g t-0: -2 records; 2 records in responses that were empty |"
    )


def test_members_are_the_clients_that_got_partitions() -> None:
    def pair(client: str, captured: int, replayed: int) -> Pair:
        return {
            "api": "SyncGroup",
            "client_id": client,
            "captured": {"digest": [{"assigned": captured}]},
            "answers": [{"digest": [{"assigned": replayed}]}],
        }

    assert assigned_members([pair("a", 2, 2), pair("b", 1, 0), pair("c", 0, 1), pair("a", 0, 0)]) == (2, 1)
