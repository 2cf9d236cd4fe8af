"""`replay.load.learned_shapes`: most requests of a log are never decoded."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdissect.protocol.codec.messages import DecodedMessage
from kdissect.replay.load.analysis import load
from kdissect.replay.load.log_requests import read_log
from kdissect.replay.load.repeated_messages import RepeatedMessages
from kdissect.replay.load.spool import Spool
from kdissect.replay.settings import Groups, ReplaySettings
from tests.helpers.recorded import CAPTURES
from tests.helpers.replay_logs import make_log


def test_not_every_request_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_log([str(CAPTURES / "steady.pcapng")], tmp_path / "log")
    decoded: list[bytes] = []
    request = RepeatedMessages.request

    def counted(messages: RepeatedMessages, frame: bytes) -> DecodedMessage:
        decoded.append(frame)
        return request(messages, frame)

    monkeypatch.setattr(RepeatedMessages, "request", counted)
    spool = Spool()
    loaded = load(read_log(tmp_path / "log", spool), spool, ReplaySettings(target=(), groups=Groups.FULL))
    assert 0 < len(decoded) < 0.8 * len(loaded.items)
