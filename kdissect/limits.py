"""Upper bounds on the memory and work that captured bytes can cause.

The environment variable KDISSECT_LIMITS overrides them, as in `frame=512m ahead=64m`; k, m and g are powers
of 1024. Data beyond a limit is left out, and the report counts it. Limits are constants of compiled kernels,
so other limits compile kernels anew.
"""

import os
import re
from typing import NamedTuple

from kdissect.errors import UserError
from kdissect.text import parse_size

LIMITS_VARIABLE = "KDISSECT_LIMITS"


class LimitsError(UserError):
    """The variable does not say what limits it sets; the message is one sentence."""


class Limit(NamedTuple):
    """A limit, and the highest value that may be set."""

    usual: int
    most: int


LIMITS = {
    # Bytes of one message. Kafka's own limit, socket.request.max.bytes, is 100 MiB unless raised.
    "frame": Limit(256 << 20, (1 << 31) - 1),
    # Bytes of one direction that wait for a packet before them: more than the receive window of any usual
    # host.
    "ahead": Limit(16 << 20, 1 << 30),
    # Bytes that all connections of a task hold together of what waits for more, twice `frame` at least. A
    # worker takes up to three times as much.
    "held": Limit(512 << 20, 1 << 40),
    # Bytes that the records of one partition in one message are decompressed to.
    "decompressed": Limit(64 << 20, 1 << 40),
    # Topics and partitions, or in a dump elements of arrays, of one message: each takes a hundred times its
    # bytes.
    "elements": Limit(1 << 20, 1 << 30),
    # Connections in one part of a capture of which nothing is there but unanswered attempts to open them.
    "attempts": Limit(50_000, 1 << 40),
}


def read(text: str) -> dict[str, int]:
    """Read what the variable says. Raise LimitsError.

    >>> read("frame=512m")["frame"] >> 20
    512
    """
    values = {name: limit.usual for name, limit in LIMITS.items()}
    for part in re.split(r"[,\s]+", text.strip()) if text.strip() else ():
        name, _, said = part.lower().partition("=")
        try:
            most, values[name] = LIMITS[name].most, parse_size(said)
        except (KeyError, ValueError):
            known = ", ".join(f"{name}=N" for name in LIMITS)
            raise LimitsError(f"{LIMITS_VARIABLE}: {part!r} is not one of {known}") from None
        if values[name] > most:
            raise LimitsError(f"{LIMITS_VARIABLE}: {part} is too much; the most is {most}")
    return values


_SET = read(os.environ.get(LIMITS_VARIABLE, ""))
FRAME_BYTES = _SET["frame"]
AHEAD_BYTES = _SET["ahead"]
HELD_BYTES = max(_SET["held"], 2 * FRAME_BYTES)
DECOMPRESSED_BYTES = _SET["decompressed"]
ELEMENTS = _SET["elements"]
ATTEMPTS = _SET["attempts"]
