"""`replay.machines.progress_feed`: which requests have ended, and what is known of those of a lost worker."""

from __future__ import annotations

import json
import zlib

import pytest

from kdissect.replay.disposition import Disposition
from kdissect.replay.engine.pass_results import CODES, RequestResult, ResultTable
from kdissect.replay.load.analysis import load
from kdissect.replay.load.policy import Refusal
from kdissect.replay.machines.channel import Listener
from kdissect.replay.machines.progress_feed import PartLedger, ProgressFeed, packed_endings, unpacked_endings
from kdissect.replay.machines.worker_link import DriverLink
from tests.helpers.paper_cluster import PRODUCE, batch, produce, took
from tests.helpers.paper_target import Script, settings
from tests.replay.machines.test_channel import pair


def test_each_result_is_reported_once() -> None:
    listener = Listener("127.0.0.1")
    driver, worker = pair(listener)
    link, results = DriverLink(worker), ResultTable()
    feed = ProgressFeed(link)
    reported = []
    for indices in ([4, 2], [], [9]):
        for index in indices:
            results.append(RequestResult(index, Disposition.ANSWERED))
        feed.end(results)
        while (message := driver.receive(5)) is not None and message.kind == "alive":
            pass
        assert message is not None
        reported.append([row[0] for row in unpacked_endings(message.body).tolist()])
    assert reported == [[4, 2], [], [9]]
    link.close()
    listener.close()


def test_endings_survive_their_way() -> None:
    results = ResultTable()
    results.append(RequestResult(7, Disposition.CLOSED))
    assert unpacked_endings(packed_endings(results)).tolist() == [[7, CODES[Disposition.CLOSED]]]
    assert unpacked_endings(packed_endings(ResultTable())).tolist() == []


def test_every_request_of_a_lost_worker_is_accounted_for() -> None:
    script = Script()
    for number in range(5):
        script.add(number, PRODUCE, 9, produce(batch(-1, 900), topic="a"), took(0), connection=number)
    items = load(script.capture(), script.shelf, settings()).items
    items.refuse(4, Refusal(Disposition.POLICY, "excluded"))
    ledger, results = PartLedger(items), ResultTable()
    results.append(RequestResult(1, Disposition.ANSWERED))
    results.append(RequestResult(0, Disposition.TIMED_OUT))
    results.append(RequestResult(4, Disposition.POLICY, "excluded"))
    ledger.add(packed_endings(results))
    assert len(ledger) == 2
    lines = [json.loads(line) for line in ledger.lines("it died")]
    assert sorted((line["bucket"], line["requests"], line["reason"]) for line in lines) == [
        ("answered", 1, "its result was lost: it died"),
        ("policy", 1, "excluded"),
        ("policy", 2, "nothing is known of it: it died"),
        ("timed out", 1, "its result was lost: it died"),
    ]
    assert {line["api"] for line in lines} == {"Produce"}


@pytest.mark.parametrize("body", [b"junk", zlib.compress(b"12345"), zlib.compress(bytes(8) + b"\xff" * 8)])
def test_a_report_that_no_worker_sends_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever it says, the worker is lost then
        PartLedger(()).add(body)
