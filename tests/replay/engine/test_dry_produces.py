"""`replay.engine.dry_produces`: answers that are kept are those of the plain way."""

from __future__ import annotations

from random import Random

import pytest

from kdissect.protocol.codec.messages import encode_request
from kdissect.replay.engine import dry_produces
from kdissect.replay.engine.dry_produces import DryProduces
from tests.helpers.paper_cluster import batch

Tree = dict[str, object]


def frames(version: int, count: int) -> list[bytes]:
    """Return requests of some clients to some partitions, most of them to one each."""
    chance, found = Random(version), []
    for number in range(count):
        client = chance.choice(["me", "you", None, "somebody with a longer name"])
        header = {
            "request_api_key": 0,
            "request_api_version": version,
            "correlation_id": number,
            "client_id": client,
        }
        topics: list[Tree] = []
        for name in chance.sample(["orders", "payments", "b"], chance.choice([1, 1, 1, 2])):
            data = [
                {
                    "index": index,
                    "records": chance.choice([None, *[batch(records=chance.randrange(1, 40))] * 4]),
                }
                for index in chance.sample(range(2), chance.choice([1, 1, 1, 2]))
            ]
            named = {"topic_id": name.encode().ljust(16)} if version >= 13 else {"name": name}
            topics.append(named | {"partition_data": data})
        frame = encode_request(header, {"acks": -1, "timeout_ms": 9, "topic_data": topics})
        found.append(len(frame).to_bytes(4, "big") + frame)
    return found


@pytest.mark.parametrize("most", [2, 1 << 12])
@pytest.mark.parametrize("version", [3, 8, 9, 12, 13])
def test_answers_that_are_kept_are_those_of_the_plain_way(
    version: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dry_produces, "MOST_FRONTS", most)
    asked = frames(version, 300)
    keeping, reading = DryProduces(), DryProduces()
    read: list[int] = []
    plain = DryProduces._read

    def noted_read(self: DryProduces, frame: bytes) -> bytes:
        read.append(self is keeping)
        return plain(self, frame)

    monkeypatch.setattr(DryProduces, "_read", noted_read)
    expected = [reading._read(frame) for frame in asked]
    assert [keeping.answer(frame) for frame in asked] == expected
    assert 0 < sum(read) < len(asked) * (0.7 if most > 2 else 1)
