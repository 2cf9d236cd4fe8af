"""The schemas of captured registry traffic, looked for when the first id in front of a value needs one.

In come the splits of captures, out goes a source of schemas (`payload.schema_store`). Finding them takes
another reading of all packet headers, so captures whose records have no ids are not read for it.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from uuid import UUID

from kdissect.capture.index.splits import Split
from kdissect.exchanges.prescan import scan_pieces
from kdissect.payload.captured_registry import CapturedRegistry
from kdissect.payload.schema_store import Schema
from kdissect.streams.registry_traffic import RegistryTraffic


class CapturedSchemas:
    """The schemas that HTTP connections of some splits tell, on all ports if `ports` is empty."""

    def __init__(self, splits: Sequence[Split], ports: Iterable[int] = ()) -> None:
        self._splits, self._ports = splits, tuple(ports)

    @property
    def is_empty(self) -> bool:
        """Return whether there are no schemas."""
        return self._registry.is_empty

    def by_id(self, number: int) -> Schema | None:
        """Return the schema with an id, None if there is none. Raise ValueError with a reason."""
        return self._registry.by_id(number)

    def by_guid(self, guid: UUID) -> Schema | None:
        """Return the schema with a GUID, None if there is none. Raise ValueError with a reason."""
        return self._registry.by_guid(guid)

    def by_subject(self, _subject: str) -> Schema | None:
        """Return None: clients of a registry put an id in front of each value."""
        return None

    @cached_property
    def _registry(self) -> CapturedRegistry:
        traffic = RegistryTraffic(self._splits)
        for pieces in scan_pieces(self._splits, self._ports):
            traffic.feed(pieces)
        return traffic.registry()
