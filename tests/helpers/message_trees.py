"""The tree of a message with nothing left unsaid: what two codecs that treat absent fields differently are
compared by."""

from typing import Any

from kdissect.protocol.schema.definition import Field, Message


def present(owner: Message | Field, version: int) -> list[Field]:
    """Return the fields of a version in the order of the schema file, which is the order of Kafka's own
    definitions."""
    return [field for field in owner.fields if version in field.versions]


def complete(owner: Message | Field, version: int, value: dict[str, Any]) -> dict[str, Any]:
    """Return a value in which every absent tagged field has its default."""
    return {
        field.name: _complete(field, version, value[field.name])
        if field.name in value
        else default(field, version)
        for field in present(owner, version)
    }


def _complete(field: Field, version: int, value: Any) -> Any:
    if field.type != "struct" or value is None:
        return value
    if field.array:
        return [complete(field, version, item) for item in value]
    return complete(field, version, value)


def default(field: Field, version: int) -> Any:
    """Return what an absent field means."""
    if field.default != ():
        return field.default
    if field.array:
        return []
    return {child.name: default(child, version) for child in present(field, version)}
