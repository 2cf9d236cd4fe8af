"""The schema of an id or of a subject, wherever schemas come from, each looked up once.

In come ids, GUIDs and subjects, out go `Schema`s, or the reason why there is none. A source is a folder or a
registry; the first one that has a schema counts. A schema that was not found is remembered too, so hostile
ids cost a look-up once, and at most MOST_LOOKUPS look-ups are made.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol
from uuid import UUID

MOST_LOOKUPS = 10_000


class SchemaKind(StrEnum):
    """The languages of schemas, as registries call them."""

    AVRO = "AVRO"
    PROTOBUF = "PROTOBUF"
    JSON = "JSON"


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """A schema: its language, and its text; for Protobuf a serialized FileDescriptorSet.

    `parts` has the texts of the schemas that it refers to, those without references first.
    """

    kind: SchemaKind
    definition: Any
    parts: tuple[Any, ...] = ()


class SchemaSource(Protocol):
    """Source of schemas."""

    @property
    def is_empty(self) -> bool:
        """Return whether it is known to have no schema at all."""

    def by_id(self, number: int) -> Schema | None:
        """Return the schema with an id, None if there is none. Raise ValueError with a reason."""

    def by_guid(self, guid: UUID) -> Schema | None:
        """Return the schema with a GUID, None if there is none. Raise ValueError with a reason."""

    def by_subject(self, subject: str) -> Schema | None:
        """Return the schema of a subject, None if there is none. Raise ValueError with a reason."""


class SchemaStore:
    """The schemas of several sources."""

    def __init__(self, sources: Sequence[SchemaSource] = ()) -> None:
        self._sources = tuple(sources)
        self._known: dict[int | UUID | str, Schema | str | None] = {}

    def with_source(self, source: SchemaSource) -> "SchemaStore":
        """Return a store that asks another source last."""
        return SchemaStore((*self._sources, source))

    def find(self, wanted: int | UUID | str) -> Schema | str | None:
        """Return the schema of an id, GUID or subject, the reason why it cannot be read, or None."""
        if wanted not in self._known:
            if len(self._known) >= MOST_LOOKUPS:
                return f"more than {MOST_LOOKUPS:,} schemas were looked up"
            self._known[wanted] = self._look_up(wanted)
        return self._known[wanted]

    @property
    def is_empty(self) -> bool:
        """Return whether all sources surely have no schema: then ids in front of values mean nothing."""
        return all(source.is_empty for source in self._sources)

    def has_id(self, number: int | UUID) -> bool:
        """Return whether there is a schema with an id."""
        return isinstance(self.find(number), Schema)

    def _look_up(self, wanted: int | UUID | str) -> Schema | str | None:
        reason = None
        for source in self._sources:
            try:
                found = _schema_from(source, wanted)
            except ValueError as error:
                reason = str(error)
                continue
            if found is not None:
                return found
        return reason


def _schema_from(source: SchemaSource, wanted: int | UUID | str) -> Schema | None:
    if isinstance(wanted, int):
        return source.by_id(wanted)
    return source.by_guid(wanted) if isinstance(wanted, UUID) else source.by_subject(wanted)
