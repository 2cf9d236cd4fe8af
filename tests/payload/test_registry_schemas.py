"""Paths of versions, and responses that are no schemas; the rest is shown by `test_schema_registry`."""

from typing import Any
from uuid import UUID

import pytest

from kdissect.payload.registry_schemas import RegistrySchemas, version_path

GUID = UUID(int=17)


class Objects(RegistrySchemas):
    """A registry of some objects."""

    def __init__(self, **objects: Any) -> None:
        self._objects = {f"/schemas/ids/{number.strip('_')}": one for number, one in objects.items()}
        self._objects[f"/schemas/guids/{GUID}"] = {"schema": '"long"'}

    def _get(self, path: str) -> dict[str, Any] | None:
        return self._objects.get(path)


def test_names_of_subjects_are_quoted() -> None:
    assert version_path("a/b c", "latest") == "/subjects/a%2Fb%20c/versions/latest"


def test_by_guid() -> None:
    schema = Objects().by_guid(GUID)
    assert schema is not None
    assert schema.definition == '"long"'
    assert Objects().by_guid(UUID(int=18)) is None


def test_wrong_responses_have_a_reason() -> None:
    registry = Objects(_1={"references": [{}]}, _2={"references": 5}, _3={"schemaType": "PROTOBUF"})
    for number, reason in ((1, "no subject"), (2, "no subject"), (3, "serialized descriptor")):
        with pytest.raises(ValueError, match=reason):
            registry.by_id(number)
    assert registry.by_id(1 << 31) is None
    assert not registry.is_empty
