"""Frames that are cut, damaged or unknown keep their length and the numbers of their header, and no name."""

import random

from kdissect.exchanges.decoded import DecodedExchange
from kdissect.protocol.codec.messages import decode_request
from kdissect.slice.anonymized_frames import FrameAnonymizer
from kdissect.slice.same_length_names import SameLengthPseudonyms
from tests.slice.test_message_comment import produce

NAMES = (b"orders-of-the-house", b"me-and-my-client")


def anonymizer() -> FrameAnonymizer:
    return FrameAnonymizer(SameLengthPseudonyms.new("a key"))


def test_a_cut_frame_is_rewritten_as_far_as_it_goes() -> None:
    exchange = produce(NAMES[0].decode(), 3, 6).exchange
    assert exchange.request is not None
    for length in range(8, len(exchange.request.data)):
        cut = exchange._replace(request=exchange.request._replace(data=exchange.request.data[:length]))
        made = anonymizer().frames(DecodedExchange(cut))
        assert made.request is not None
        assert len(made.request) == length
        assert made.request[:8] == exchange.request.data[:8]
        assert not any(name[:6] in made.request for name in NAMES)


def test_damaged_frames_show_nothing() -> None:
    chance = random.Random(2)
    exchange = produce(NAMES[0].decode(), 2, 6).exchange
    assert exchange.request is not None
    for _ in range(300):
        data = bytearray(exchange.request.data)
        data[chance.randrange(8, len(data))] = chance.randrange(256)
        damaged = exchange._replace(request=exchange.request._replace(data=bytes(data)))
        made = anonymizer().frames(DecodedExchange(damaged))
        assert made.request is not None
        assert len(made.request) == len(data)
        assert NAMES[0] not in made.request


def test_an_unknown_version_keeps_its_header() -> None:
    exchange = produce(NAMES[0].decode(), 2, 6).exchange
    assert exchange.request is not None
    data = exchange.request.data[:2] + (99).to_bytes(2) + exchange.request.data[4:]
    made = anonymizer()
    unknown = exchange._replace(api_version=99, request=exchange.request._replace(data=data))
    frame = made.frames(DecodedExchange(unknown)).request
    assert frame is not None
    assert made.blanked == 2
    header = decode_request(frame).header
    assert (header["request_api_version"], header["correlation_id"]) == (99, 41)
    assert NAMES[0] not in frame
