"""Short texts that sections share: counts, lists, clients, software, ranges of numbers."""

import ast
from pathlib import Path

from kdissect import report
from kdissect.report.wording import (
    AT_THE_END,
    TO_THE_END,
    UNTIL_THE_END,
    client_id_text,
    client_text,
    counted,
    for_so_long,
    joined,
    lasting,
    listed,
    number_ranges,
    refused_attempts,
    software_text,
    under_way,
    with_end,
)


def test_a_noun_takes_an_s_unless_there_is_one():
    assert [counted(count, "client") for count in (0, 1, 2, 1500)] == [
        "0 clients",
        "1 client",
        "2 clients",
        "1,500 clients",
    ]


def test_a_list_ends_with_the_number_of_others():
    assert listed(["a", "b"], 2) == "a, b"
    assert listed(["a", "b", "c", "d"], 2) == "a, b and 2 more"
    assert listed([], 2) == ""


def test_subjects_are_joined_by_and():
    assert joined(["a"], 3) == "a"
    assert joined(["a", "b"], 3) == "a and b"
    assert joined(["a", "b", "c"], 3) == "a, b and c"
    assert joined(["a", "b", "c", "d"], 2) == "a, b and 2 more"


def test_a_client_has_an_id_and_a_host():
    assert client_text("orders", "10.0.0.1") == "orders at 10.0.0.1"
    assert client_text(None, None) == "(no client id) at ?"
    assert client_id_text("") == "(no client id)"


def test_software_is_what_is_known_of_it():
    assert software_text("librdkafka", "2.6.1") == "librdkafka 2.6.1"
    assert software_text("librdkafka", None) == "librdkafka"
    assert software_text(None, None) == ""


def test_versions_are_written_as_ranges():
    assert number_ranges({9, 3, 4, 5, 11}) == "3-5, 9, 11"
    assert number_ranges([1, 1]) == "1"
    assert number_ranges(set()) == ""


def test_requests_under_way_are_told_if_there_are_any():
    assert under_way(0) == ""
    assert under_way(2) == " with 2 requests under way"


def test_attempts_are_refused_until_the_end_unless_that_was_over():
    assert refused_attempts(1, True) == "1 attempt to connect refused"
    assert refused_attempts(3, False) == "3 attempts to connect refused until the end of the capture"


def test_what_lasts_ends_after_a_time_or_with_the_capture():
    assert lasting(5_000_000_000, 8_000_000_000) == "for 3.00s"
    assert lasting(5_000_000_000, None) == TO_THE_END


def test_a_text_about_the_end_of_the_capture_tells_a_time_once_that_is_over():
    assert with_end(f"froze {TO_THE_END}, 3s", "09:00") == "froze until 09:00, 3s"
    assert with_end(f"refused {UNTIL_THE_END}", "09:00") == "refused until 09:00"
    assert with_end(f"no response {AT_THE_END}", "09:00") == "no response at 09:00"
    assert with_end("froze for 3s", "09:00") == "froze for 3s"


def test_what_lasts_longer_than_the_capture_says_so():
    assert for_so_long(3_000_000_000, True) == "for 3.00s"
    assert for_so_long(3_000_000_000, False) == f"for 3.00s, {TO_THE_END}"


def test_sentences_about_the_end_of_the_capture_have_their_words_from_one_place():
    """Else an incident that is closed would keep them."""
    (folder,) = report.__path__
    written = [
        (path.name, node.value)
        for part in ("signals", "incidents")
        for path in Path(folder, part).glob("*.py")
        for statement in ast.walk(ast.parse(path.read_text()))
        if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        for node in ast.iter_child_nodes(statement)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    assert len(written) > 1000
    ends = ("to the end of the capture", "until the end of the capture", "when the capture end")
    assert [one for one in written if any(words in one[1] for words in ends)] == []
