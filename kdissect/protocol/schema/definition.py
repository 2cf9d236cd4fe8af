"""Parts of a message: the values that the schema files become, and the words they may use.

A `Field` stands for all versions of itself, so a message is one tree and not one per version; `fields_at`
returns those of a single version. Versions are Python ranges. `PRIMITIVES` are the types, and
`field_roles.ROLES` the meanings.
"""

from collections.abc import Iterator
from dataclasses import dataclass

NONE = range(0)

UNKNOWN_TAGS = "_tags"  # no field of Kafka starts with an underscore

EMPTY_ARRAY = bytes(4)

Default = int | float | str | bytes | tuple[()] | None


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message, over all versions of it."""

    name: str
    type: str  # a key of PRIMITIVES, or "struct"
    array: bool
    versions: range  # where it exists, within its parent's
    nullable: range  # where it may be null
    tag: int | None  # set: a tagged field in all of its versions
    default: Default  # what an absent tagged field means; () is an empty array, or a struct of defaults
    role: str | None  # a key of field_roles.ROLES
    embedded: str | None  # the message that the bytes carry
    fields: tuple["Field", ...]


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """One body: a request, a response, or a message carried elsewhere.

    A message is equal to itself only, so it is a cheap key for caches.
    """

    name: str
    versions: range
    flexible: range
    fields: tuple[Field, ...]
    header: tuple[range, int] | None = None  # versions whose header has this version, against the rule
    prefixed: bool = False  # a 2-byte version stands before the body
    trailing: range = NONE  # versions behind which some clients write one empty array more, of no meaning


@dataclass(frozen=True, slots=True)
class Api:
    """One API key: its request and its response, which always share their versions."""

    key: int
    name: str
    versions: range
    flexible: range
    live: range
    former_name: str | None
    request: Message
    response: Message
    unstable: range = NONE  # live versions that brokers serve only with unstable.api.versions.enable


def fields_at(owner: Message | Field, version: int) -> tuple[Field, ...]:
    """Return the fields of a message or a struct in one version: untagged in wire order, then tagged ones."""
    present = [field for field in owner.fields if version in field.versions]
    untagged = [field for field in present if field.tag is None]
    tagged = [field for field in present if field.tag is not None]
    return (*untagged, *sorted(tagged, key=lambda field: field.tag or 0))


def every_field(owner: Message | Field, path: str = "") -> Iterator[tuple[str, Field]]:
    """Yield all fields of a message, depth first, as (dotted path, field)."""
    for field in owner.fields:
        where = f"{path}.{field.name}" if path else field.name
        yield where, field
        yield from every_field(field, where)


# Every primitive with its zero, which is what an absent field means where the schema says nothing else.
PRIMITIVES: dict[str, Default] = {
    "bool": False,
    "int8": 0,
    "int16": 0,
    "uint16": 0,
    "int32": 0,
    "int64": 0,
    "float64": 0.0,
    "uuid": bytes(16),
    "string": "",
    "int16_string": "",  # a string whose length stays int16 in flexible versions
    "bytes": b"",
    "records": b"",
}
