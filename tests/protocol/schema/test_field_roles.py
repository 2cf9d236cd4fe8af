"""The roles of fields, and the columns that keep them."""

from collections import Counter

import pytest

from kdissect.protocol.schema.field_roles import ROLES


def test_a_role_says_what_it_means() -> None:
    assert all(len(role.meaning) > 3 and not role.meaning.endswith(".") for role in ROLES.values())
    assert list(ROLES) == sorted(ROLES)


@pytest.mark.parametrize("where", ["message", "row", "broker"])
def test_a_column_keeps_one_role(where: str) -> None:
    columns = Counter(column for role in ROLES.values() if (column := getattr(role, where)))
    assert columns
    assert max(columns.values()) == 1
