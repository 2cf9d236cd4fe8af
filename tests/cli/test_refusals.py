"""Filters, questions and conditions on the command line: what is refused at once, and what a run of each
says."""

from pathlib import Path

import pytest

from tests.helpers.command_here import kdissect_here

CAPTURES = Path(__file__).parents[2] / "captures"
NEGLECT = CAPTURES / "neglect.pcapng"
REPORT = Path(__file__).parents[2] / "reports" / "broker-restart" / "report.json"

WRONG: list[tuple[list[str | Path], str]] = [
    (["analyze", "--by", "moon", NEGLECT], "invalid choice: 'moon'"),
    (["analyze", "--fail-on", "slow=warning", NEGLECT], "'slow' is not a finding"),
    (["analyze", "--fail-on", "produce.p99>5", NEGLECT], "compared with a time"),
    (["analyze", "--api", "Produzieren", NEGLECT], "'Produzieren' is not an API of Kafka"),
    (
        ["export", "--error", "OOPS", NEGLECT, "--table", "all", "--out", "x"],
        "'OOPS' is not an error of Kafka",
    ),
    (["sql", "SELECT 1", NEGLECT, "--since", "2026-11-21T04:60:00"], "is not a time; examples"),
    (["who", "orders", NEGLECT, "--until", "tomorrow"], "is not a time; examples"),
    (["who", "ord*", NEGLECT, "--anonymize"], "TOPIC must be a full name"),
    (["ready", "--for", "3.0", NEGLECT], "invalid choice: '3.0'"),
    (["diff", NEGLECT], "required: AFTER"),
    (["diff", REPORT, "nowhere.pcap"], "nowhere.pcap: no such file or directory"),
    (["sql", "SELECT 1", "nowhere.pcap"], "nowhere.pcap: no such file or directory"),
    (["who", "orders", Path(__file__)], "is not a packet capture"),
]


@pytest.mark.parametrize(("arguments", "words"), WRONG, ids=[words for _, words in WRONG])
def test_what_cannot_be_is_one_sentence_before_java_starts(
    arguments: list[str | Path], words: str, tmp_path: Path
) -> None:
    no_java = {"JAVA_HOME": "", "PATH": str(tmp_path)}
    done = kdissect_here(*arguments, **no_java)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Java" not in done.stderr
