"""The schema of Kafka 0.7 for people: its requests, and the fields of one of them.

It had types where later versions have API keys, and neither versions nor correlation ids, so it stands apart from the table
of `coverage`. Fields come from `messages/kafka_0_7.txt`; what is said of counts and ends is what `kafka07` does.
"""

from collections.abc import Iterator

from kdissect.dump.schema_text import (
    GAP,
    align,
    field_rows,
)
from kdissect.errors import UsageError
from kdissect.protocol.kafka07.message_codec import (
    ANSWERS,
    PARTS,
    SHAPES,
    OldType,
    old_name,
)
from kdissect.protocol.schema.registry import MESSAGES

RELEASE = "0.7"
COLUMNS = ("TYPE", "REQUEST OF KAFKA 0.7", "ANSWERED")

Row = tuple[str, ...]
ERROR: Row = (f"{GAP}error_code", "int16", "@error", "")
MESSAGES_OF_FETCH: Row = (f"{GAP}messages", "records", "", "to the end of the frame, without a length")
RESPONSES: dict[OldType, tuple[Row, ...]] = {
    OldType.FETCH: (ERROR, MESSAGES_OF_FETCH),
    OldType.MULTI_FETCH: (
        ERROR,
        (f"{GAP}{ANSWERS}", "[]", "", "one for each request, in their order, to the end of the frame"),
        (f"{GAP * 2}size", "int32", "", "counts error_code and messages"),
        (f"{GAP * 2}error_code", "int16", "@error", ""),
        (f"{GAP * 2}messages", "records", "", "as long as size says"),
    ),
    OldType.OFFSETS: (ERROR, *field_rows(MESSAGES["OldOffsetsAnswer"], 0, 1)),
}


def request_table() -> list[str]:
    """Write the table of the requests of Kafka 0.7."""
    rows = [
        (str(int(kind)), shape.name, "yes" if kind in RESPONSES else "no") for kind, shape in SHAPES.items()
    ]
    return [
        *align([COLUMNS, *rows]),
        "",
        f"Kafka {RELEASE} had {len(SHAPES)} types of requests, no versions, no correlation ids",
    ]


def request_fields(asked: str) -> list[str]:
    """Write request and response of a type of Kafka 0.7."""
    kind = find_request(asked)
    if kind is None:
        raise UsageError(
            f"{asked!r} is no request of Kafka {RELEASE}; 'kdissect schema --version {RELEASE}' lists them"
        )
    told = align(RESPONSES[kind]) if kind in RESPONSES else [f"{GAP}(none: the broker does not answer)"]
    return [
        f"{old_name(kind)}  type {int(kind)} of Kafka {RELEASE}, which had no versions",
        "",
        "request, after its int16 type",
        *align(list(_asked(kind))),
        "",
        "response, without a header",
        *told,
    ]


def find_request(asked: str) -> OldType | None:
    """Find a type by its number or name."""
    return next(
        (kind for kind, shape in SHAPES.items() if asked.lower() in (str(int(kind)), shape.name.lower())),
        None,
    )


def _asked(kind: OldType) -> Iterator[Row]:
    shape = SHAPES[kind]
    if shape.several:
        yield f"{GAP}{PARTS}", "[]", "", "counted in an int16"
    yield from field_rows(MESSAGES[shape.part], 0, 2 if shape.several else 1)
