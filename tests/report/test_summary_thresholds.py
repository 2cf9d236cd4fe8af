"""`--fail-on` of analyze: what is read, what is refused, and when a condition is met."""

import pytest

from kdissect.errors import UsageError
from kdissect.report.build.build_report import build_report
from kdissect.report.partials import summarise
from kdissect.report.summary_thresholds import SUMMARY_VOCABULARY
from kdissect.report.thresholds import conditions
from tests.helpers import paper_capture


@pytest.fixture(scope="module")
def summary():
    return build_report(summarise(paper_capture.tables()), paper_capture.CAPTURE)


def met(text, summary):
    return [line for one in conditions([text], SUMMARY_VOCABULARY) for line in one.met(summary)]


@pytest.mark.parametrize(
    ("text", "is_met"),
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
        ("metadata.p50<3000µs", True),
        ("produce.errors>0", True),
        ("produce.errors>=25%", True),
        ("produce.errors>25%", False),
        ("produce.unanswered>0", True),
        ("fetch.calls<3", False),
        ("heartbeat.calls<1", True),
        ("heartbeat.errors<1%", False),
        ("heartbeat.p99>1ms", False),
        ("all.calls>8", True),
        ("all.max>3ms", False),
        ("all.max>1h", False),
        ("any=critical,all.calls>8", True),
        ("any=critical, all.max>3ms,", False),
    ],
)
def test_a_condition_is_met_or_not(summary, text, is_met):
    assert bool(met(text, summary)) is is_met


def test_the_sentence_has_the_figure_and_the_limit(summary):
    assert met("produce.p99>2ms", summary) == ["produce.p99 is 3.00ms, more than 2ms"]
    assert met("produce.errors>=25%", summary) == ["produce.errors is 25.0%, at least 25%"]


def test_the_sentence_of_a_finding_has_its_title(summary):
    (sentence,) = met("throttled=warning", summary)
    assert sentence.startswith("throttled is warning: ")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("slow=warning", "'slow' is not a finding"),
        ("any=bad", "'bad' is not a severity"),
        ("producer.p99>1ms", "'producer' is not an API"),
        ("produce.p98>1ms", "'p98' is not a figure"),
        ("produce>1ms", "'produce' is not a figure of an API"),
        ("produce.p99>5", "a time such as 50ms"),
        ("produce.p99>5%", "a time such as 50ms"),
        ("produce.errors>5ms", "a number or a percentage"),
        ("produce.p99", "not a condition"),
        ("diverged", "not a condition"),
        ("", "'' is not a condition"),
        ("produce.p99>>1ms", "not a condition"),
        ("any=critical,slow=warning", "'slow' is not a finding"),
    ],
)
def test_a_wrong_condition_is_refused_with_what_would_do(text, words):
    with pytest.raises(UsageError, match=f"^--fail-on: .*{words}"):
        conditions([text], SUMMARY_VOCABULARY)
