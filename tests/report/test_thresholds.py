"""The grammar of `--fail-on` on a small vocabulary: separators, operators, units, and refusals."""

import pytest

from kdissect.errors import UsageError
from kdissect.report.thresholds import TableVocabulary, Unit, conditions, plain_number

RUN = TableVocabulary(
    figures={"new_error": lambda run: run["new_error"], "p99_ratio": lambda run: run["p99_ratio"]},
    statements={"diverged": lambda run: ["the verdict is diverged"] if run["verdict"] == "diverged" else []},
)
RESULT = {"new_error": 0.001, "p99_ratio": 1.6, "verdict": "diverged"}


def met(*texts):
    return [sentence for one in conditions(texts, RUN) for sentence in one.met(RESULT)]


def test_conditions_come_from_commas_and_from_repeated_options():
    read = conditions(["new_error>0.1%, p99_ratio>1.5", "diverged,"], RUN)
    assert [one.text for one in read] == ["new_error>0.1%", "p99_ratio>1.5", "diverged"]


@pytest.mark.parametrize(
    ("text", "is_met"),
    [
        ("new_error>0.1%", False),  # 0.001 is 0.1 % exactly, in spite of binary fractions
        ("new_error>=0.1%", True),
        ("new_error<=0.001", True),
        ("new_error<0.1%", False),
        ("new_error < 0.2%", True),
        ("p99_ratio>1.5", True),
        ("p99_ratio>150%", True),
        ("p99_ratio>2", False),
        ("diverged", True),
    ],
)
def test_an_amount_is_compared_exactly(text, is_met):
    assert bool(met(text)) is is_met


def test_sentences_use_the_unit_of_the_limit():
    assert met("p99_ratio>1.5", "p99_ratio>150%") == [
        "p99_ratio is 1.6, more than 1.5",
        "p99_ratio is 160%, more than 150%",
    ]
    assert met("p99_ratio>=1", "p99_ratio<=2", "p99_ratio<2") == [
        "p99_ratio is 1.6, at least 1",
        "p99_ratio is 1.6, at most 2",
        "p99_ratio is 1.6, less than 2",
    ]
    assert met("diverged") == ["the verdict is diverged"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("p99>3", "'p99' is not a figure; there are new_error, p99_ratio"),
        ("p99_ratio>3ms", "p99_ratio is compared with a number or a percentage"),
        ("invalid", "'invalid' is not a condition"),
        ("diverged=1", "'diverged=1' is not a condition"),
        ("p99_ratio>-1", "'p99_ratio>-1' is not a condition"),
        ("p99_ratio>٣", "is not a condition"),
        ("p99_ratio=>1", "is not a condition"),
        ("  ", "is not a condition"),
    ],
)
def test_a_wrong_condition_is_refused(text, words):
    with pytest.raises(UsageError, match=words):
        conditions([text], RUN)


def test_a_number_beyond_all_measure_is_refused():
    with pytest.raises(UsageError, match="is not a condition"):
        conditions(["p99_ratio<1" + "0" * 400], RUN)


def test_no_condition_is_none():
    assert conditions([], RUN) == ()


def test_a_plain_number_has_the_text_of_its_unit():
    assert plain_number(0.25, Unit.PERCENT).text == "25%"
    assert plain_number(2, Unit.NUMBER) == (2, "2")
