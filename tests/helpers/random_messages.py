"""Random messages made from the schema: the same for tests that use a fixed seed and for Hypothesis.

`random_message` fills every field that a message has in a version, with the values that go wrong most: the
ends of a type, empty and null, strings and arrays whose length takes two bytes, text that is not UTF-8,
unknown tags. `tame` keeps to what every Kafka client can represent: error codes that exist, times that fit a
calendar, valid UTF-8, no null in a tagged field.
"""

from random import Random
from typing import Any

from hypothesis import strategies as st

from kdissect.protocol.error_codes import ErrorCode
from kdissect.protocol.schema.definition import (
    UNKNOWN_TAGS,
    Field,
    Message,
    fields_at,
)

INTEGERS = {
    "int8": (-(2**7), 2**7),
    "int16": (-(2**15), 2**15),
    "uint16": (0, 2**16),
    "int32": (-(2**31), 2**31),
}
MANY = 130  # elements, of which a compact length takes two bytes
TEXTS = ("", "orders", "Łódź-漢字-🎈", "long " * 30)
WILD_TEXTS = (*TEXTS, "\udcff\udc80 not UTF-8", "nul\0")
WILD_INT64 = (0, 1, -1, 2**63 - 1, -(2**63))
TAME_INT64 = (0, 1, -1, 1_700_000_000_123, 2**40)
# kio 0.6 and kafka-python 3 know the error codes of Kafka 4.3.
TAME_ERRORS = [code for code in ErrorCode if code <= ErrorCode.SHARE_SESSION_LIMIT_REACHED]


def messages(message: Message, version: int) -> st.SearchStrategy[dict[str, Any]]:
    """Random messages as a Hypothesis strategy."""
    return st.randoms(use_true_random=False).map(lambda rng: random_message(rng, message, version))


def random_message(
    rng: Random, owner: Message | Field, version: int, tame: bool = False, tags: bool = True
) -> Any:
    """Return one value for a message or a struct.

    `tags` allows unknown tagged fields where the version is flexible.
    """
    flexible = isinstance(owner, Message) and version in owner.flexible
    return _struct(rng, owner, version, tame, tags and flexible)


def _struct(rng: Random, owner: Message | Field, version: int, tame: bool, tags: bool) -> dict[str, Any]:
    value = {
        field.name: _value(rng, field, version, tame, tags)
        for field in fields_at(owner, version)
        if field.tag is None or rng.random() < 0.6
    }
    if tags and rng.random() < 0.2:
        value[UNKNOWN_TAGS] = [(tag, rng.randbytes(rng.choice((0, 1, 130)))) for tag in (77, 1000)]
    return value


def _value(rng: Random, field: Field, version: int, tame: bool, tags: bool) -> Any:
    null_allowed = version in field.nullable and not (tame and field.tag is not None)
    if null_allowed and rng.random() < 0.25:
        return None
    if field.array:
        return [_one(rng, field, version, tame, tags) for _ in range(_count(rng, field))]
    return _one(rng, field, version, tame, tags)


def _count(rng: Random, field: Field) -> int:
    count = rng.choice((0, 1, 1, 2))
    many = count == 2 and field.type != "struct" and rng.random() < 0.1
    return MANY if many else count


def _one(rng: Random, field: Field, version: int, tame: bool, tags: bool) -> Any:
    match field.type:
        case "struct":
            return _struct(rng, field, version, tame, tags)
        case "bool":
            return rng.choice((True, False))
        case "int64" if tame and field.role == "timestamp":
            return rng.choice((0, 1_700_000_000_123))
        case "int64":
            return rng.choice(TAME_INT64 if tame else WILD_INT64)
        case "float64":
            return rng.choice((0.0, -1.5, 1e300))
        case "uuid":
            return rng.choice((bytes(16), rng.randbytes(16)))
        case "string" | "int16_string":
            return rng.choice(TEXTS if tame else WILD_TEXTS)
        case "bytes" | "records":
            return rng.randbytes(rng.choice((0, 5, 200)))
        case _ if tame and field.role == "error":
            return int(rng.choice(TAME_ERRORS))
    low, high = INTEGERS[field.type]
    return rng.choice((low, high - 1, max(low, -1), 0, rng.randrange(low, high)))
