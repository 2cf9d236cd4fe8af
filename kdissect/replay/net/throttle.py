"""The throttle time of a response (KIP-219), read from its bytes where possible."""

from functools import cache

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.schema.definition import fields_at
from kdissect.protocol.schema.registry import APIS, response_header_version
from kdissect.replay.effects import Answer


def throttle_of(answer: Answer) -> int:
    """Return the throttle time of a response in ms.

    The place in the frame where that number usually stands is looked at first, and the body only if it is not
    0 there: that happens seldom, and those bytes may be something else, as behind a leader's address
    (KIP-951).
    """
    return 0 if _usual_throttle(answer) <= 0 else int(answer.body.get("throttle_time_ms", 0))


def _usual_throttle(answer: Answer) -> int:
    """Read the first number of a body, but of Produce the last."""
    frame, key, version = answer.frame, answer.part.key, answer.part.version
    if frame is None:
        return 0
    if key == ApiKey.PRODUCE:
        flexible = version in APIS[key].flexible
        if flexible and frame[-1]:
            return 1  # a tagged field is last
        return int.from_bytes(frame[-5:-1] if flexible else frame[-4:], "big", signed=True)
    position = throttle_position(key, version)
    return int.from_bytes(frame[position : position + 4], "big", signed=True) if position else 0


@cache
def throttle_position(key: int, version: int) -> int:
    """Return where the throttle time stands in a response frame; 0 if it does not stand first."""
    first = fields_at(APIS[key].response, version)[0]
    return 4 + response_header_version(key, version) if first.role == "throttle" else 0
