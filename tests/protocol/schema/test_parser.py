"""Grammar of the schema files: accepted text, its values, and the error for a wrong line."""

import pytest

from kdissect.protocol.schema.definition import (
    Api,
    Message,
    every_field,
    fields_at,
)
from kdissect.protocol.schema.parser import SchemaError, parse

EXAMPLE = """
# Comments and blank lines go away.
7 Shut  versions 0-3  flexible 2+  live 1-3  was Halt

  request   header 0 for 0
    broker_id    int32                        @broker
    reason       string?2+
    flags        []int8?   1-2

  response
    error_code   int16                        @error
    topics       []
      name       string           = null      @topic
      count      int32     1+     = -7
      leader     {}?       2+
        id       int32            = 5
      extra      bytes     3+ tag 4
"""


def one(text: str) -> Api | Message:
    (block,) = parse("messages/x.txt", text)
    return block


def example() -> Api:
    api = one(EXAMPLE)
    assert isinstance(api, Api)
    return api


def test_the_header_line_says_what_is_true_of_the_whole_api() -> None:
    api = example()
    assert (api.key, api.name, api.former_name) == (7, "Shut", "Halt")
    assert (api.versions, api.flexible, api.live) == (range(4), range(2, 4), range(1, 4))
    assert (api.request.name, api.response.name) == ("ShutRequest", "ShutResponse")
    assert (api.request.header, api.response.header) == ((range(1), 0), None)


def test_fields_inherit_the_versions_of_their_parent() -> None:
    fields = dict(every_field(example().response))
    assert fields["topics"].versions == range(4)
    assert fields["topics.name"].versions == range(4)
    assert fields["topics.leader"].versions == range(2, 4)
    assert fields["topics.leader.id"].versions == range(2, 4)


def test_nullability_has_versions_of_its_own() -> None:
    fields = dict(every_field(example().request))
    assert fields["reason"].nullable == range(2, 4)
    assert fields["flags"].nullable == fields["flags"].versions == range(1, 3)
    assert fields["broker_id"].nullable == range(0)


def test_types_roles_tags_and_defaults() -> None:
    api = example()
    request, response = dict(every_field(api.request)), dict(every_field(api.response))
    assert (request["flags"].type, request["flags"].array) == ("int8", True)
    assert (request["broker_id"].role, request["reason"].role) == ("broker", None)
    assert (response["topics"].type, response["topics"].array, response["topics"].default) == (
        "struct",
        True,
        (),
    )
    assert (response["topics.count"].default, response["topics.name"].default) == (-7, None)
    assert (response["topics.extra"].tag, response["topics.extra"].default) == (4, b"")


def test_fields_at_gives_one_version_with_the_tagged_fields_last() -> None:
    topics = example().response.fields[1]
    assert [field.name for field in fields_at(topics, 0)] == ["name"]
    assert [field.name for field in fields_at(topics, 3)] == ["name", "count", "leader", "extra"]


def test_a_plain_message_may_be_prefixed_and_carried() -> None:
    text = (
        "Inner versions 0-1 prefixed\n  user int8\nOuter versions 3 flexible 3+\n  body bytes? as Inner 3+\n"
    )
    inner, outer = parse("messages/x.txt", text)
    assert isinstance(inner, Message)
    assert isinstance(outer, Message)
    assert (inner.prefixed, outer.prefixed, inner.flexible, outer.flexible) == (
        True,
        False,
        range(0),
        range(3, 4),
    )
    assert outer.fields[0].embedded == "Inner"


def api(*lines: str) -> str:
    return "\n".join(["0 X versions 0-3 flexible 2+", *lines])


REQUEST = ("  request", "  response")

WRONG = [
    ("  a int8", 1, "indented, but nothing stands above it"),
    ("0 X versions 0-3\n   request", 2, "indent is not in steps of two spaces"),
    ("0 X versions 0-3\n\trequest", 2, "indent is not in steps of two spaces"),
    ("0", 1, "an API needs a key and a name"),
    ("0 X flexible 1+", 1, "versions are missing"),
    ("0 X versions 0-3 supple 2+", 1, "unknown word 'supple'"),
    ("0 X versions 0+", 1, "bad versions '0+'"),
    ("0 X versions 3-1", 1, "versions 3-1 lie outside those of the parent"),
    ("0 X versions 0-3 flexible 9+", 1, "versions 9+ lie outside those of the parent"),
    ("0 X versions", 1, "bad versions ''"),
    (api("  request"), 1, "an API is one request, then one response"),
    (api("  response", "  request"), 1, "an API is one request, then one response"),
    (api("    a int8", *REQUEST), 1, "an API is one request, then one response"),
    (api("  request header 0", "  response"), 2, "expected: request header <version> for <versions>"),
    (api("  request header 0 for 8", "  response"), 2, "versions 8 lie outside those of the parent"),
    (
        api("  request", "    a", "  response"),
        3,
        "expected: name type [versions] [tag n] [= default] [@role]",
    ),
    (api("  request", "    a int8 @x @y", "  response"), 3, "expected: name type [versions]"),
    (api("  request", "    A int8", "  response"), 3, "expected: name type [versions]"),
    (api("  request", "    a int46", "  response"), 3, "unknown type 'int46'"),
    (api("  request", "    a []int46", "  response"), 3, "unknown type 'int46'"),
    (api("  request", "    a int8 @nonsense", "  response"), 3, "unknown role 'nonsense'"),
    (api("  request", "    a int8 4", "  response"), 3, "versions 4 lie outside those of the parent"),
    (api("  request", "    a int8 1-x", "  response"), 3, "expected: name type [versions]"),
    (api("  request", "    a string?3+ 0-2", "  response"), 3, "versions 3+ lie outside those of the parent"),
    (
        api("  request", "    a [] 2+", "      b int8 1", "  response"),
        4,
        "versions 1 lie outside those of the parent",
    ),
    (api("  request", "    a []", "  response"), 3, "a struct has fields, and nothing else has"),
    (
        api("  request", "    a int8", "      b int8", "  response"),
        3,
        "a struct has fields, and nothing else has",
    ),
    (api("  request", "        a int8", "  response"), 3, "indented deeper than the fields of its parent"),
    (
        api("  request", "    a int8", "    a int8 2+", "  response"),
        4,
        "a second field 'a' in the same version",
    ),
    (api("  request", "    a int8 1+ tag 0", "  response"), 3, "tagged outside the flexible versions"),
    (api("  request", "    a int8 2+ tag x", "  response"), 3, "expected: name type [versions]"),
    (api("  request", "    a int8 = many", "  response"), 3, "bad default 'many'"),
    (api("  request", "    a string = many", "  response"), 3, "a default of type string can only be null"),
    (api("  request", "    a []int8 = 3", "  response"), 3, "a default of type int8 can only be null"),
    (api("  request", "    a string as Other", "  response"), 3, "only bytes carry a message"),
]


@pytest.mark.parametrize(("text", "line", "reason"), WRONG, ids=[reason for _, _, reason in WRONG])
def test_a_wrong_line_is_named(text: str, line: int, reason: str) -> None:
    with pytest.raises(SchemaError) as caught:
        parse("messages/99_x.txt", text)
    assert str(caught.value).startswith(f"messages/99_x.txt:{line}: {reason}")


def test_two_fields_may_share_a_name_in_different_versions() -> None:
    message = one("X versions 0-3\n  a int8 0-1\n  a int16 2+\n")
    assert [field.type for field in message.fields if isinstance(message, Message)] == ["int8", "int16"]


def test_an_empty_file_has_nothing_in_it() -> None:
    assert parse("messages/x.txt", "# nothing\n\n") == []
