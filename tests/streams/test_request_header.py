"""Headers of requests: what is one, what may be one, and what is none."""

import pytest

from tests.helpers.followed import brief, follow
from tests.helpers.segment_wire import CLIENT, SERVER, Wire, request, response


@pytest.mark.parametrize("name", [b"a\tb", b"\x1b[31m", "\u202e\u00e9".encode(), b"\x7f"])
@pytest.mark.parametrize("opened", [True, False])
def test_clients_may_call_themselves_anything(wire: Wire, name: bytes, opened: bool) -> None:
    if opened:
        wire.open()
    for number in range(4):
        wire.send(CLIENT, request(3, 1, number, client=name))
        wire.send(SERVER, response(number, b"tell"))
    found, _ = follow(wire)
    assert brief(found) == [("answered", number) for number in range(4)]
