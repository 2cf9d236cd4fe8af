"""`replay.load.shaped_messages`: the facts of fetches are what their responses have."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import decode_response
from kdissect.protocol.records.batches import following_offset
from kdissect.replay.load.log_requests import read_log
from kdissect.replay.load.request_shapes import NO_SHAPE
from kdissect.replay.load.shaped_messages import FETCHED, NONE
from kdissect.replay.load.spool import Spool
from tests.helpers.recorded import CAPTURES
from tests.helpers.replay_logs import make_log


def test_facts_say_what_a_fetch_brought(tmp_path: Path) -> None:
    spool, folder = Spool(), tmp_path / "log"
    make_log([str(CAPTURES / "cluster-life.pcapng")], folder)
    capture = read_log(folder, spool)
    logged = capture.logged
    assert logged is not None
    (facts,) = logged.facts()
    offsets = []
    for request in capture.requests:
        if request.key != ApiKey.FETCH or logged.shapes[request.index] == NO_SHAPE:
            continue
        response = decode_response(spool.get(request.response) or b"", 1, request.version or 0)
        parts = [each for topic in (response.body or {})["responses"] for each in topic["partitions"]]
        expected = [
            [_or_none(following_offset(each["records"] or b"")), len(each["records"] or b"")]
            for each in parts
        ]
        rows, _ = facts.rows(np.array([request.index]), FETCHED)
        assert rows.tolist() == expected
        offsets += [row[0] for row in expected]
    assert len(offsets) > 20
    assert max(offsets) > 0


def _or_none(offset: int | None) -> int:
    return NONE if offset is None else offset
