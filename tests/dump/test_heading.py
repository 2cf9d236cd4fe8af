"""The heading as text against the object, over exchanges that lack this and that."""

from itertools import product
from random import Random

import pytest

from kdissect.dump.heading import exchange_heading, heading_text
from kdissect.dump.jsonl import encode
from kdissect.exchanges.decoded import DecodedExchange
from kdissect.exchanges.exchange import CapturedFrame, Exchange
from kdissect.streams.flow_state import STATUS_NAMES
from tests.dump.handmade import REQUEST, RESPONSE, SECOND, StubReader, frame


def frames(data: bytes) -> list[CapturedFrame | None]:
    """Return frames that are whole, cut, without a first packet, of another file, and none."""
    found: list[CapturedFrame | None] = [
        frame(data, SECOND + 5, lost, split) for lost, split in product((0, 3), (0, 1))
    ]
    return [*found, frame(data, SECOND)._replace(packet=-1), None]


@pytest.mark.parametrize("status", STATUS_NAMES)
def test_the_text_is_that_of_the_object(status: str) -> None:
    rng, reader = Random(status), StubReader()
    for request, response in product(frames(REQUEST), frames(RESPONSE)):
        key, version, number = (rng.choice((None, 1, 12, 999)) for _ in range(3))
        exchange = Exchange(0, number, status, key, version, number, number, request, response)
        decoded = DecodedExchange(exchange)
        assert heading_text(decoded, reader, encode) + "}" == encode(exchange_heading(decoded, reader))
