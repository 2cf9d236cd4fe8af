"""Words for numbers: by the field, and by the message where a field means two things."""

import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.enums import SCOPED, TABLES, words_of
from kdissect.protocol.schema.definition import Field, every_field
from kdissect.protocol.schema.registry import APIS


def field(key: ApiKey, half: str, name: str) -> Field:
    return next(found for _, found in every_field(getattr(APIS[key], half)) if found.name == name)


@pytest.mark.parametrize(
    ("key", "half", "name", "value", "word"),
    [
        (ApiKey.METADATA, "response", "error_code", 3, "UNKNOWN_TOPIC_OR_PARTITION"),
        (ApiKey.METADATA, "response", "error_code", 999, "UNKNOWN(999)"),
        (ApiKey.CREATE_TOPICS, "response", "topic_config_error_code", 29, "TOPIC_AUTHORIZATION_FAILED"),
        (ApiKey.API_VERSIONS, "response", "api_key", 1, "Fetch"),
        (ApiKey.FETCH, "request", "isolation_level", 1, "read_committed"),
        (ApiKey.FETCH, "request", "isolation_level", 9, None),
        (ApiKey.PRODUCE, "request", "acks", -1, "all"),
        (ApiKey.DESCRIBE_ACLS, "request", "resource_type_filter", 3, "group"),
        (ApiKey.DESCRIBE_CONFIGS, "request", "resource_type", 4, "broker"),
        (ApiKey.DESCRIBE_CONFIGS, "request", "resource_type", 32, "group"),
        (ApiKey.LIST_OFFSETS, "request", "timestamp", -2, "earliest"),
    ],
)
def test_words(key: ApiKey, half: str, name: str, value: int, word: str | None) -> None:
    words = words_of(getattr(APIS[key], half), field(key, half, name))
    assert words is not None
    assert words(value) == word


def test_operations_are_a_set_of_bits() -> None:
    words = words_of(
        APIS[ApiKey.METADATA].response, field(ApiKey.METADATA, "response", "topic_authorized_operations")
    )
    assert words is not None
    assert words(-(2**31)) is None  # not asked for
    assert words(0) == "none"
    assert words(1 << 3 | 1 << 8 | 1 << 31) == "read, describe, 31"


def test_a_field_that_is_just_a_number_has_no_words() -> None:
    assert words_of(APIS[ApiKey.FETCH].request, field(ApiKey.FETCH, "request", "max_wait_ms")) is None


def test_every_table_belongs_to_a_field_of_the_schema() -> None:
    halves = [half for api in APIS.values() for half in (api.request, api.response)]
    names = {found.name for half in halves for _, found in every_field(half)}
    assert TABLES.keys() <= names
    for scope, tables in SCOPED.items():
        scoped = {
            found.name for half in halves if half.name.startswith(scope) for _, found in every_field(half)
        }
        assert tables.keys() <= scoped
