"""`replay.machines.progress_feed`: which requests have ended."""

from __future__ import annotations

from kdissect.replay.disposition import Disposition
from kdissect.replay.engine.pass_results import CODES, RequestResult, ResultTable
from kdissect.replay.machines.channel import Listener
from kdissect.replay.machines.progress_feed import ProgressFeed, packed_endings, unpacked_endings
from kdissect.replay.machines.worker_link import DriverLink
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
