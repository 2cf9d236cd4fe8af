"""`replay.load.requests`: a capture as requests in time order."""

from __future__ import annotations

from pathlib import Path

from kdissect.protocol.codec.messages import decode_request, decode_response
from kdissect.replay.load.requests import read
from kdissect.replay.load.spool import Spool

CAPTURES = Path(__file__).parents[3] / "captures"


def test_requests_come_in_time_order_with_their_responses(tmp_path: Path) -> None:
    spool = Spool()
    capture = read(
        [str(CAPTURES / "transactions.pcapng")], (), str(tmp_path), spool, topic_names={b"n" * 16: "mine"}
    )
    times = [request.first_ns for request in capture.requests]
    assert times == sorted(times)
    assert [request.index for request in capture.requests] == list(range(len(times)))
    assert capture.names[b"n" * 16] == "mine"
    assert {request.server for request in capture.requests} == capture.servers
    for request in capture.requests[:200]:
        decoded = decode_request(spool.get(request.frame) or b"")
        assert (decoded.header["request_api_key"], decoded.header["request_api_version"]) == (
            request.key,
            request.version,
        )
        if request.response_complete:
            response = decode_response(spool.get(request.response) or b"", request.key, request.version)
            assert response.fault is None
        assert (request.service_ns is None) == (request.answered_ns is None)
        assert capture.client_host(request.connection)
    assert capture.client_host(-1) == ""
