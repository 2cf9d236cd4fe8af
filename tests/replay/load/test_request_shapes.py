"""`replay.load.request_shapes`: messages of one shape differ only in what their facts say."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import decode_request, encode_request
from kdissect.replay.load.log_requests import read_log
from kdissect.replay.load.request_shapes import (
    NO_SHAPE,
    SAME_BODY,
    ShapedBatch,
    fact_lists,
    session_place,
)
from kdissect.replay.load.requests import Capture
from kdissect.replay.load.shaped_messages import PRODUCED, ProducedFacts
from kdissect.replay.load.spool import Spool
from tests.helpers.recorded import CAPTURES
from tests.helpers.replay_logs import make_log


@pytest.fixture(scope="module")
def spool() -> Spool:
    return Spool()


@pytest.fixture(scope="module")
def capture(spool: Spool, tmp_path_factory: pytest.TempPathFactory) -> Capture:
    folder = tmp_path_factory.mktemp("logs") / "log"
    make_log([str(CAPTURES / "cluster-life.pcapng")], folder)
    return read_log(folder, spool)


def test_requests_of_one_shape_are_alike(capture: Capture, spool: Spool) -> None:
    assert capture.logged is not None
    bodies: dict[int, set[bytes]] = defaultdict(set)
    for request in capture.requests:
        shape = int(capture.logged.shapes[request.index])
        if shape != NO_SHAPE and request.key in SAME_BODY:
            frame = spool.get(request.frame) or b""
            bodies[shape].add(frame[:4] + frame[8:] + request.connection.to_bytes(8, "big"))
    assert len(bodies) > 10
    assert {len(each) for each in bodies.values()} == {1}


def test_facts_say_what_a_produce_wrote(capture: Capture, spool: Spool) -> None:
    logged = capture.logged
    assert logged is not None
    (facts,) = logged.facts()
    seen = 0
    for request in capture.requests:
        if request.key != ApiKey.PRODUCE:
            continue
        body = decode_request(spool.get(request.frame) or b"").body or {}
        sizes = [len(each["records"]) for topic in body["topic_data"] for each in topic["partition_data"]]
        rows, owners = facts.rows(np.array([request.index]), PRODUCED)
        assert ProducedFacts(*rows.T).size.tolist() == sizes
        assert owners.tolist() == [request.index] * len(sizes)
        seen += 1
    assert seen > 10


def test_a_session_stands_where_the_codec_writes_it() -> None:
    assert session_place(6) is None
    for version in range(7, 19):
        place = session_place(version)
        assert place is not None
        body = {"session_id": 0x01020304, "session_epoch": 0x05060708, "topics": []}
        header = {
            "request_api_key": 1,
            "request_api_version": version,
            "correlation_id": 0,
            "client_id": "",
        }
        frame = encode_request(header, {"max_wait_ms": 0, "min_bytes": 0, "forgotten_topics_data": []} | body)
        begin = 10 + (version >= 12)
        assert frame[begin + place.request :][:8] == bytes(range(1, 9))


def test_facts_become_lists() -> None:
    batch = ShapedBatch(np.array([0, NO_SHAPE, 0]), np.array([2, 0, 1]), np.array([7, 8, 9]))
    assert fact_lists([batch, batch]).to_pylist() == [[7, 8], [], [9]] * 2
    assert fact_lists([]).to_pylist() == []
