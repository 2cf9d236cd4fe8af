"""Throttle times in frames of responses, against the encoder."""

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import encode_response
from kdissect.protocol.error_codes import ErrorCode
from kdissect.replay.disposition import Disposition
from kdissect.replay.effects import Answer, Part
from kdissect.replay.net.throttle import throttle_of, throttle_position


def test_the_throttle_time_stands_first_where_it_does() -> None:
    assert throttle_position(16, 1) == 4
    assert throttle_position(16, 0) == 0
    assert throttle_position(3, 9) == 5  # after the tags of a flexible header


def test_the_address_of_a_new_leader_is_not_taken_for_a_throttle_time() -> None:
    """KIP-951: a tagged field is behind the throttle time, and its last byte may be 0."""
    endpoints = [{"node_id": 2, "host": "broker", "port": 9092, "rack": None}]
    partition = {"index": 0, "error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER, "base_offset": -1}
    body = {
        "responses": [{"name": "orders", "partition_responses": [partition]}],
        "node_endpoints": endpoints,
    }
    for throttle_ms in (0, 7):
        frame = encode_response(0, 10, {"correlation_id": 1}, body | {"throttle_time_ms": throttle_ms})
        assert frame[-1] == 0
        assert throttle_of(Answer(Part(ApiKey.PRODUCE, 10, {}), Disposition.ANSWERED, frame)) == throttle_ms
