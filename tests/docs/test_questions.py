"""The twelve questions of docs/getting-started.md: each command is run, and answers what it should."""

import re
import shlex
from pathlib import Path

import pytest

from tests.helpers.command_here import kdissect_here
from tests.helpers.tiers import thorough_after

ROOT = Path(__file__).parents[2]
CAPTURES = ROOT / "captures"
PAGE = (ROOT / "docs" / "getting-started.md").read_text("utf-8")
SECTION = PAGE.partition("## Twelve questions")[2].partition("\n## ")[0]
QUESTIONS = re.findall(r"^### (.+?)\n\n    (kdissect .+)$", SECTION, re.MULTILINE)
IN_SQL = [(question, command) for question, command in QUESTIONS if " sql " in command]
OTHERS = [one for one in QUESTIONS if one not in IN_SQL]
FILES = {
    "incident.pcap": "broker-restart.pcapng",
    "before.pcap": "steady.pcapng",
    "after.pcap": "pause.pcapng",
}
OLD = {"Who still uses versions that the next release removes?": "old-broker.pcap"}

ANSWERS = {
    "Which client is slow?": (0, r"orders-java"),
    "Which topic has the most traffic?": (0, r"orders +[\d,]+ +[\d,]+"),
    "Who still uses versions that the next release removes?": (3, r"Produce"),
    "What failed in this minute?": (0, r"NOT_LEADER_OR_FOLLOWER"),
    "How do I pass on just this connection?": (0, r""),
    "What does this record say?": (0, r"value \(json\)\n +sender: "),
    "What did this client do just before its error?": (0, r"(?s)^  .*> .*NOT_LEADER_OR_FOLLOWER"),
    "Who put a member out of its group?": (0, r"join"),
    "Which partition has the most load?": (0, r"orders +\d+ +[\d,]+"),
    "How far behind is a consumer?": (0, r"billing-1 +orders +\d+ +\d+"),
    "What changed after the deployment?": (0, r"billing-1"),
    "Is it the network or the broker?": (0, r"127\.0\.0\.1 +28386 +[\d.]+ +[\d.]+"),
}


def test_there_are_twelve() -> None:
    assert [question for question, _ in QUESTIONS] == list(ANSWERS)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(("question", "command"), [*OTHERS, *thorough_after(1, IN_SQL)])
def test_its_command_answers_it(
    question: str, command: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    words = shlex.split(command)[1:]
    paths = {name: str(CAPTURES / OLD.get(question, file)) for name, file in FILES.items()}
    words = [paths.get(word, str(tmp_path / word) if word == "one.pcapng" else word) for word in words]
    engine = request.getfixturevalue("engine") if words[0] == "sql" else None
    done = kdissect_here(*words, engine=engine)
    code, expected = ANSWERS[question]
    assert done.returncode == code, done.stderr
    assert re.search(expected, done.stdout), done.stdout[:3000]
    if "one.pcapng" in command:
        assert (tmp_path / "one.pcapng").stat().st_size > 1000
