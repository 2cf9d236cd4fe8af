"""Two reports against each other: what is certain, what is not, what came and went."""

import json
from itertools import pairwise

import numpy as np

from kdissect.report.build.compare import compare, more_often, wilson
from kdissect.report.model.comparison import Difference
from tests.helpers.report_rows import json_report


def verdicts(before, after):
    (row,) = compare(before, after).rows
    return {one.percentile: one.verdict for one in row.percentiles}


RNG = np.random.default_rng(3)
FAST = RNG.exponential(1000, 500)


def test_a_clear_shift_is_slower_one_way_and_faster_the_other():
    fast, slow = json_report(FAST), json_report(FAST * 2)
    assert verdicts(fast, slow) == {
        "p50": Difference.SLOWER,
        "p90": Difference.SLOWER,
        "p99": Difference.SLOWER,
    }
    assert verdicts(slow, fast)["p50"] is Difference.FASTER


def test_samples_of_one_distribution_show_no_difference():
    calls = [json_report(RNG.exponential(1000, 400)) for _ in range(12)]
    found = [one for before, after in pairwise(calls) for one in verdicts(before, after).values()]
    assert set(found) <= {Difference.SAME, Difference.SLOWER, Difference.FASTER}
    assert sum(one is not Difference.SAME for one in found) <= 1


def test_ten_values_say_something_of_the_median_and_nothing_of_the_99th_percentile():
    assert verdicts(json_report(FAST[:10]), json_report(FAST[:10] * 50)) == {
        "p50": Difference.SLOWER,
        "p90": Difference.FEW,
        "p99": Difference.FEW,
    }
    assert set(verdicts(json_report(FAST[:5]), json_report(FAST[:5] * 50)).values()) == {Difference.FEW}


def test_rows_of_one_side_only():
    both = compare(json_report(FAST), json_report(FAST, api=(1, "Fetch", 13)))
    assert {(row.label, row.verdict) for row in both.rows} == {
        ("Fetch", Difference.ONLY_AFTER),
        ("Produce", Difference.ONLY_BEFORE),
    }
    assert {(change.subject, change.before, change.after) for change in both.versions} == {
        ("Fetch", None, "13"),
        ("Produce", "9", None),
    }


def test_errors_that_appeared_and_errors_that_became_more():
    found = compare(json_report(FAST), json_report(FAST, errors=40))
    assert [(change.subject, change.before) for change in found.errors] == [
        ("Produce NOT_LEADER_OR_FOLLOWER", None)
    ]
    assert found.rows[0].errors_verdict == "more"
    assert compare(json_report(FAST, errors=40), json_report(FAST)).rows[0].errors_verdict == "fewer"
    assert (
        compare(json_report(FAST, errors=3), json_report(FAST, errors=5)).rows[0].errors_verdict
        == "too few to tell"
    )


def test_wilson_as_books_print_it():
    low, high = wilson(10, 100)  # Newcombe 1998: 0.0552 to 0.1744
    assert (round(low, 4), round(high, 4)) == (0.0552, 0.1744)
    assert more_often(0, 0, 1, 1) == more_often(0, 10, 0, 10) == ""


def test_more_errors_than_calls_count_as_all():
    """A topic has an error for each partition, so a call may have several."""
    assert wilson(30, 10) == wilson(10, 10)
    assert more_often(1, 10, 30, 10) == "more"


def rows_of(by, *rows):
    """A report whose profile has these (label, detail, calls)."""
    some = json_report(FAST)
    (row,) = some["profile"]["rows"]
    own = [row | {"label": label, "detail": detail, "exchanges": calls} for label, detail, calls in rows]
    return some | {"profile": some["profile"] | {"by": by, "rows": own}}


def calls_of(comparison):
    return [(row.detail, row.calls_before, row.calls_after) for row in comparison.rows]


def test_clients_of_one_host_that_differ_in_software_are_rows_of_their_own():
    two = rows_of("client", ("app", "h1, java 3.9", 20), ("app", "h1, librdkafka 2.6", 30))
    assert calls_of(compare(two, two)) == [("h1, java 3.9", 20, 20), ("h1, librdkafka 2.6", 30, 30)]
    one = rows_of("client", ("app", "h1, java 3.9", 20))
    assert calls_of(compare(one, two)) == [("h1, java 3.9", 20, 20), ("h1, librdkafka 2.6", 0, 30)]
    newer = rows_of("client", ("app", "h1, java 4.0", 25))
    assert calls_of(compare(one, newer)) == [("h1, java 4.0", 20, 25)]


def test_connections_of_a_port_that_is_used_again_are_rows_of_their_own():
    again = rows_of("connection", ("h1:40000 > b1:9092", "app", 20), ("h1:40000 > b1:9092", "app", 5))
    assert calls_of(compare(again, again)) == [("app", 20, 20), ("app", 5, 5)]


def test_client_software_that_changed():
    after = json_report(FAST)
    before = json.loads(json.dumps(after).replace("2.6.1", "2.3.0"))
    (change,) = compare(before, after).clients
    assert (change.subject, change.before, change.after) == (
        "orders-app",
        "librdkafka 2.3.0",
        "librdkafka 2.6.1",
    )


def test_a_tail_that_grew_by_far_is_reported_before_a_median_that_fell():
    """200 calls have no interval of their 99th percentile; 744 ms to 13.2 s is still what matters."""
    before = json_report([2000.0] * 190 + [744_000.0] * 10)
    after = json_report([1000.0] * 190 + [13_200_000.0] * 10)
    assert verdicts(before, after)["p99"] is Difference.LIKELY_SLOWER
    assert verdicts(before, after)["p50"] is Difference.FASTER
    assert verdicts(after, before)["p99"] is Difference.LIKELY_FASTER
    (row,) = compare(before, after).rows
    assert row.verdict is Difference.LIKELY_SLOWER


def test_a_tail_of_milliseconds_or_of_few_values_is_not_likely_slower():
    assert (
        verdicts(json_report([100.0] * 200), json_report([100.0] * 197 + [5000.0] * 3))["p99"]
        is Difference.FEW
    )
    assert verdicts(json_report([100.0] * 15), json_report([100.0] * 12 + [9e6] * 3))["p99"] is Difference.FEW
