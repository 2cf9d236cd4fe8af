"""`replay.load.decoded_cache`: captured messages, decoded."""

from __future__ import annotations

from kdissect.replay.load.analysis import load
from kdissect.replay.load.decoded_cache import MOST_BYTES, CapturedMessages
from tests.helpers.paper_cluster import batch, produce, took
from tests.helpers.paper_target import Script, settings


def test_small_and_large_requests_are_given_as_copies() -> None:
    script = Script()
    script.add(0, 0, 9, produce(batch(0)), took(7))
    script.add(1, 0, 9, produce(batch(0) * 100))
    script.add(2, 0, 9, {}, raw=b"\0\0\0\x09not a request")
    assert script.requests[1].frame.size > MOST_BYTES
    loaded = load(script.capture(), script.shelf, settings())
    captured = CapturedMessages(loaded.bodies, script.shelf.get)
    for request, copies in zip(script.requests[:2], (1, 100), strict=True):
        for _ in range(2):
            body = captured.request(request)
            (partition,) = body["topic_data"][0]["partition_data"]
            assert partition["records"] == batch(0) * copies
            partition["records"] = b""  # changes nothing for the next caller
    assert captured.request(script.requests[2]) == {}
    assert captured.response(script.requests[0])["responses"]
    assert captured.response(script.requests[1]) == {}
