"""`kdissect who`: writers and readers of a topic, and topics that are not there."""

import json
from pathlib import Path

import pytest

from tests.helpers.command import WITHOUT_SPARK, assert_one_sentence, kdissect

CAPTURE = Path(__file__).parents[2] / "captures" / "steady.pcapng"
pytestmark = pytest.mark.spark


def test_writers_and_readers_agree_in_text_and_json() -> None:
    done = kdissect("who", "*", CAPTURE, "--quiet", "--format", "json", **WITHOUT_SPARK)
    topics = json.loads(done.stdout)
    assert topics
    text = kdissect("who", topics[0]["topic"], CAPTURE, "--quiet").stdout
    for client in [*topics[0]["writers"], *topics[0]["readers"]]:
        assert client["client"]["client_id"] in text


def test_a_topic_that_is_not_there_is_one_sentence_with_those_that_are() -> None:
    done = kdissect("who", "no-such-topic", CAPTURE, "--quiet", **WITHOUT_SPARK)
    assert (done.returncode, done.stdout) == (2, "")
    assert_one_sentence(done.stderr)
    assert "it has " in done.stderr
