"""--fail-on: what is read, what is refused, and when a condition holds, on the capture that was worked out on paper."""

import pytest

from kdissect.report.aggregate.merge import summarise
from kdissect.report.build.report import build_report
from kdissect.report.thresholds import NoCondition, condition
from tests.report import paper_capture as handmade


@pytest.fixture(scope="module")
def summary():
    return build_report(summarise(handmade.tables()), handmade.CAPTURE)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("throttled=warning", True),
        ("throttled=note", True),
        ("throttled=critical", False),
        ("slow_broker=note", False),
        ("any=warning", True),
        ("any=critical", False),
        ("produce.p99>2ms", True),
        ("produce.p99>3ms", False),
        ("Produce.p99 >= 3ms", True),
        ("metadata.p50<3000us", True),
        ("produce.errors>0", True),
        ("produce.errors>=25%", True),
        ("produce.errors>25%", False),
        ("produce.unanswered>0", True),
        ("fetch.calls<3", False),
        ("heartbeat.calls<1", True),
        ("heartbeat.p99>1ms", False),
        ("all.calls>8", True),
        ("all.max>3ms", False),
    ],
)
def test_holds(summary, text, holds):
    assert bool(condition(text).held(summary)) is holds


def test_says_what_it_saw(summary):
    assert condition("produce.p99>2ms").held(summary) == ["produce.p99 is 3.00ms, > 2ms"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("slow=warning", "'slow' is no finding"),
        ("any=bad", "'bad' is no severity"),
        ("producer.p99>1ms", "'producer' is no API"),
        ("produce.p98>1ms", "'p98' is no figure"),
        ("produce.p99>5", "a time such as 50ms"),
        ("produce.errors>5ms", "a number or a part"),
        ("produce.p99", "no condition"),
        ("", "no condition"),
        ("produce.p99>>1ms", "no condition"),
    ],
)
def test_refused(text, words):
    with pytest.raises(NoCondition, match=words.replace("(", r"\(")):
        condition(text)
