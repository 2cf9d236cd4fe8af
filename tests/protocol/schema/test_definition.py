"""The vocabulary of the schema: roles, types, and the fields of one version."""

import pytest

from kdissect.protocol.codec.messages import decode, encode
from kdissect.protocol.schema.definition import (
    PRIMITIVES,
    Message,
    every_field,
    fields_at,
)
from kdissect.protocol.schema.field_roles import ROLES
from tests.helpers.every_message import ALL_MESSAGES
from tests.helpers.handmade_messages import small_message


def roles_of(message: Message) -> dict[str, str | None]:
    return {path: field.role for path, field in every_field(message)}


def test_every_role_is_used_and_none_is_unknown() -> None:
    used = {role for message in ALL_MESSAGES for role in roles_of(message).values() if role}
    assert used == set(ROLES)


# Roles and the types that they can have: a reader may rely on these.
TYPES = {
    "topic": {"string"},
    "topic_id": {"uuid"},
    "partition": {"int32"},
    "host": {"string"},
    "port": {"int32", "uint16"},
    "offset": {"int64"},
    "timestamp": {"int64"},
    "records": {"records"},
    "throttle": {"int32"},
    "group": {"string"},
    "producer_id": {"int64"},
    "broker": {"int32"},
    "secret": {"bytes"},
}


@pytest.mark.parametrize(("role", "types"), TYPES.items(), ids=TYPES)
def test_a_role_keeps_to_its_types(role: str, types: set[str]) -> None:
    assert {
        field.type for message in ALL_MESSAGES for _, field in every_field(message) if field.role == role
    } == types


X = small_message(
    "z int8 1+ tag 1", "a int32", "b []", "  c string 0", "  d {}? 1+", "    e int8", "y int8 1+ tag 0"
)


def test_fields_of_a_version_are_in_wire_order_with_the_tagged_ones_last() -> None:
    assert [field.name for field in fields_at(X, 0)] == ["a", "b"]
    assert [field.name for field in fields_at(X, 1)] == ["a", "b", "y", "z"]
    (array,) = (field for field in X.fields if field.name == "b")
    assert [[field.name for field in fields_at(array, version)] for version in (0, 1)] == [["c"], ["d"]]


def test_every_field_is_visited_below_its_parent_by_its_path() -> None:
    paths = [path for path, _ in every_field(X)]
    assert paths == ["z", "a", "b", "b.c", "b.d", "b.d.e", "y"]
    assert all(path.rpartition(".")[2] == field.name for path, field in every_field(X))


def test_a_message_is_equal_to_itself_only() -> None:
    """Caches of compiled readers have messages as keys."""
    assert small_message("a int8") != small_message("a int8")
    assert len({X, X}) == 1


@pytest.mark.parametrize("kind", PRIMITIVES)
def test_the_zero_of_a_primitive_survives_the_wire(kind: str) -> None:
    message = small_message(f"a {kind}")
    for version in message.versions:
        data = encode(message, version, {})
        assert decode(message, version, data).value == {"a": PRIMITIVES[kind]}
