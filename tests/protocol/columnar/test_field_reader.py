"""Fields by path: against messages that the codec encoded, and against the codec on damaged ones."""

import numpy as np
import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import encode_response
from kdissect.protocol.columnar.field_reader import FieldColumns, FieldReader

READER = FieldReader(
    {"member_id": "member", "generation_id": "generation", "members": "members", "members.member_id": "last"},
    response=True,
)


def join_response(version: int, member: str, members: list[str]) -> bytes:
    since = {"throttle_time_ms": 2, "protocol_type": 7, "skip_assignment": 9, "group_instance_id": 5}
    group_member = {"metadata": b"m"} | ({"group_instance_id": None} if version >= 5 else {})
    body = {
        "throttle_time_ms": 0,
        "error_code": 0,
        "generation_id": 7,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "leader": member,
        "skip_assignment": False,
        "member_id": member,
        "members": [{"member_id": name} | group_member for name in members],
    }
    body = {field: value for field, value in body.items() if version >= since.get(field, 0)}
    return encode_response(ApiKey.JOIN_GROUP, version, {"correlation_id": 1}, body)


def read(messages: list[bytes], versions: list[int], there: list[bool] | None = None) -> FieldColumns:
    stops = np.cumsum([len(message) for message in messages])
    starts = stops - [len(message) for message in messages]
    return READER.read(
        np.frombuffer(b"".join(messages), np.uint8),
        np.stack([starts, stops, stops], axis=1).astype(np.int64),
        np.full(len(messages), ApiKey.JOIN_GROUP, np.int16),
        np.array(versions, np.int16),
        None if there is None else np.array(there),
    )


def test_fields_of_every_version() -> None:
    versions = list(range(10))
    names = [[f"m{number}" for number in range(version * 40)] for version in versions]
    messages = [join_response(version, f"member-{version}", names[version]) for version in versions]
    found, whole = read(messages, versions), b"".join(messages)
    assert not found.has_fault.any()
    assert found.counts("members").tolist() == [40 * version for version in versions]
    assert found.integers("generation").values.tolist() == [7] * 10
    members, last = found.spans("member"), found.spans("last")
    for version in versions:
        start, length = members.start[version], members.length[version]
        assert whole[start : start + length] == f"member-{version}".encode()
        start, length = last.start[version], last.length[version]
        assert (start == -1) if version == 0 else whole[start : start + length] == names[version][-1].encode()


def test_what_is_missing_damaged_or_unknown() -> None:
    good = join_response(9, "member", ["a"])
    found = read([good, good[:15], good, good], [9, 9, 99, 9], [True, True, True, False])
    assert found.has_fault.tolist() == [False, True, True, False]
    assert found.integers("generation").present.tolist() == [True, True, False, False]
    assert found.spans("member").start.tolist()[2:] == [-1, -1]
    assert found.counts("members").tolist() == [1, 0, 0, 0]


def test_more_columns_than_registers_are_refused() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        FieldReader({f"field_{number}": f"column_{number}" for number in range(20)}, response=False)
