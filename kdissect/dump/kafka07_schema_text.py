"""The schema of Kafka 0.7 as text: the table of its requests, and the fields of one of them.

Kafka 0.7 had request types in place of API keys, and neither versions nor correlation ids, so it has a table
of its own. Fields come from `messages/kafka_0_7.txt`; counts and ends are as `protocol.kafka07` reads them.
"""

from collections.abc import Iterator

from kdissect.dump.schema_text import (
    GAP,
    align,
    field_rows,
)
from kdissect.protocol.kafka07.message_codec import (
    ANSWERS,
    PARTS,
    SHAPES,
    RequestType,
    request_name,
)
from kdissect.protocol.schema.registry import MESSAGES

RELEASE = "0.7"
COLUMNS = ("TYPE", "REQUEST OF KAFKA 0.7", "ANSWERED")

Row = tuple[str, ...]
ERROR: Row = (f"{GAP}error_code", "int16", "@error", "")
MESSAGES_OF_FETCH: Row = (f"{GAP}messages", "records", "", "to the end of the frame, without a length")
RESPONSES: dict[RequestType, tuple[Row, ...]] = {
    RequestType.FETCH: (ERROR, MESSAGES_OF_FETCH),
    RequestType.MULTI_FETCH: (
        ERROR,
        (f"{GAP}{ANSWERS}", "[]", "", "one for each request, in their order, to the end of the frame"),
        (f"{GAP * 2}size", "int32", "", "counts error_code and messages"),
        (f"{GAP * 2}error_code", "int16", "@error", ""),
        (f"{GAP * 2}messages", "records", "", "as long as size says"),
    ),
    RequestType.OFFSETS: (ERROR, *field_rows(MESSAGES["OldOffsetsAnswer"], 0)),
}


def request_table() -> list[str]:
    """Return the table of the requests of Kafka 0.7 and, below it, how many there are."""
    rows = [
        (str(int(kind)), shape.name, "yes" if kind in RESPONSES else "no") for kind, shape in SHAPES.items()
    ]
    return [
        *align([COLUMNS, *rows]),
        "",
        f"Kafka {RELEASE} had {len(SHAPES)} types of requests, no versions, no correlation ids",
    ]


def find_request(text: str) -> RequestType | None:
    """Return the type of request with this number or name, in any case; None if there is none."""
    lowered = text.lower()
    return next(
        (kind for kind, shape in SHAPES.items() if lowered in (str(int(kind)), shape.name.lower())), None
    )


def request_fields(kind: RequestType) -> list[str]:
    """Return the fields of request and response of one type, with type, role and remarks."""
    unanswered = [f"{GAP}(none: the broker does not answer)"]
    return [
        f"{request_name(kind)}  type {int(kind)} of Kafka {RELEASE}, which had no versions",
        "",
        "request, after its int16 type",
        *align(list(_request_rows(kind))),
        "",
        "response, without a header",
        *(align(RESPONSES[kind]) if kind in RESPONSES else unanswered),
    ]


def _request_rows(kind: RequestType) -> Iterator[Row]:
    shape = SHAPES[kind]
    if shape.several:
        yield f"{GAP}{PARTS}", "[]", "", "counted in an int16"
    yield from field_rows(MESSAGES[shape.part], 0, depth=2 if shape.several else 1)
