"""The walk over decoded messages: what leaves are given, what a copy holds, what is passed on unchanged."""

from random import Random
from typing import Any

import pytest

from kdissect.protocol.codec.messages import encode_embedded
from kdissect.protocol.schema.definition import UNKNOWN_TAGS, Field, Message
from kdissect.protocol.schema.parser import parse
from kdissect.protocol.schema.registry import APIS, MESSAGES
from kdissect.protocol.visitor import (
    Leaf,
    Noted,
    Tree,
    Visitor,
    compile_visit,
    coordinator_type,
    embedded_message,
    is_consumer_protocol,
    resource_type,
)
from tests.helpers.random_messages import random_message

TEXT = """X  versions 0-1  flexible 1+
  name     string?             @topic
  topics   []?
    name   string              @topic
    ids    []int32
  inner    {}?      1+  tag 0
    name   string              @topic
  count    int32
"""
(X,) = parse("x.txt", TEXT)
assert isinstance(X, Message)
Seen = list[tuple[Any, Tree]]


def topics(_message: Message, field: Field, _version: int) -> Leaf[Seen] | None:
    def take(value: Any, struct: Tree, seen: Seen) -> Any:
        seen.append((value, struct))
        return f"new {value}"

    return take if field.role == "topic" else None


def tree(**more: Any) -> Tree:
    return {"name": "a", "topics": [{"name": "b", "ids": [1]}, {"name": "c", "ids": []}], "count": 3, **more}


def test_leaves_get_their_value_and_the_struct_around_it() -> None:
    visit, seen, given = compile_visit(Visitor(topics), X, 0), Seen(), tree()
    assert visit is not None
    assert visit(given, seen) is given
    assert [value for value, _ in seen] == ["a", "b", "c"]
    assert [struct for _, struct in seen] == [given, *given["topics"]]
    assert given == {
        "name": "new a",
        "topics": [{"name": "new b", "ids": [1]}, {"name": "new c", "ids": []}],
        "count": 3,
    }


@pytest.mark.parametrize("copies", [False, True])
def test_null_and_missing_fields_are_passed_over(copies: bool) -> None:
    visit = compile_visit(Visitor(topics, copies=copies), X, 1)
    assert visit is not None
    for given in ({"name": None, "topics": None, "inner": None, "count": 1}, {"count": 1}, {}):
        seen = Seen()
        assert visit(dict(given), seen) == given
        assert seen == []


def test_a_copy_leaves_the_original_alone_and_keeps_the_order() -> None:
    visit = compile_visit(Visitor(topics, copies=True), X, 1)
    assert visit is not None
    given = {"count": 1, **tree(inner={"name": "d"})}
    copy = visit(given, Seen())
    assert given == {"count": 3, **tree(inner={"name": "d"})}
    assert list(copy) == list(given)
    assert (copy["name"], copy["topics"][1]["name"], copy["inner"]) == ("new a", "new c", {"name": "new d"})


def test_what_is_noted_stands_beside_its_value() -> None:
    def note(_message: Message, field: Field, _version: int) -> Leaf[None] | None:
        return (lambda value, _, __: Noted(value, value * 2)) if field.name == "count" else None

    visit = compile_visit(Visitor(note, copies=True), X, 0)
    assert visit is not None
    assert list(visit({"count": 4, "name": "x"}, None).items()) == [
        ("count", 4),
        ("_count", 8),
        ("name", "x"),
    ]


def test_arrays_are_visited_one_by_one_or_as_a_whole() -> None:
    def numbers(_message: Message, field: Field, _version: int) -> Leaf[Seen] | None:
        def take(value: Any, struct: Tree, seen: Seen) -> Any:
            seen.append((value, struct))
            return value

        return take if field.name == "ids" else None

    for whole, values in ((False, [1, 2]), (True, [[1, 2, None]])):
        visit, seen = compile_visit(Visitor(numbers, whole_arrays=whole), X, 0), Seen()
        assert visit is not None
        given = {"topics": [{"ids": [1, 2, None]}]}
        assert visit(given, seen) == {"topics": [{"ids": [1, 2, None]}]}
        assert [value for value, _ in seen] == values


def test_a_struct_changes_the_context_inside_it() -> None:
    def leaf(_message: Message, field: Field, _version: int) -> Leaf[str] | None:
        return (lambda value, _, path: f"{path}/{value}") if field.role == "topic" else None

    visitor = Visitor(leaf, lambda _m, owner, _v: lambda _struct, path: f"{path}.{owner.name}", copies=True)
    visit = compile_visit(visitor, X, 1)
    assert visit is not None
    found = visit(tree(inner={"name": "d"}), "")
    assert (found["name"], found["topics"][0]["name"], found["inner"]["name"]) == (
        ".X/a",
        ".X.topics/b",
        ".X.inner/d",
    )


def test_unknown_tags_in_every_struct_of_flexible_versions() -> None:
    visitor: Visitor[None] = Visitor(lambda *_: None, unknown_tags=len, copies=True)
    assert compile_visit(visitor, X, 0) is None
    visit = compile_visit(visitor, X, 1)
    assert visit is not None
    given = {UNKNOWN_TAGS: [(7, b""), (8, b"")], "topics": [{UNKNOWN_TAGS: [(9, b"")]}, {}]}
    assert visit(given, None) == {UNKNOWN_TAGS: 2, "topics": [{UNKNOWN_TAGS: 1}, {}]}


def test_a_message_without_a_field_of_the_visitor_has_no_visit() -> None:
    nothing: Visitor[None] = Visitor(lambda *_: None)
    assert all(compile_visit(nothing, api.request, api.versions[-1]) is None for api in APIS.values())


@pytest.mark.parametrize("key", sorted(APIS))
def test_a_visit_that_changes_nothing_gives_an_equal_tree(key: int) -> None:
    rng = Random(key)
    same: Visitor[None] = Visitor(lambda *_: lambda value, _, __: value, copies=True)
    for message in (APIS[key].request, APIS[key].response):
        for version in message.versions:
            given = random_message(rng, message, version)
            visit = compile_visit(same, message, version)
            assert visit is None or visit(given, None) == given


def test_an_embedded_message_of_a_newer_version_is_read_as_the_newest() -> None:
    name = "ConsumerProtocolSubscription"
    data = encode_embedded(name, 0, {"topics": ["orders"], "user_data": None})
    message, version, decoded = embedded_message(name, data)
    assert (message, version, decoded.value["topics"]) == (MESSAGES[name], 0, ["orders"])
    newest = encode_embedded(name, 3, {"topics": ["orders"]})
    assert embedded_message(name, b"\0\x63" + newest[2:] + b"more").version == 3
    assert embedded_message(name, b"\xff\xff").decoded.fault is not None


def test_what_numbers_beside_a_name_say() -> None:
    assert resource_type({"resource_type": 2}) == 2
    assert resource_type({"resource_type_filter": 3}) == 3
    assert resource_type({}) is None
    assert coordinator_type({"key_type": 1}) == 1
    assert coordinator_type({}) == 0
    assert coordinator_type({"key": "x"}, {"key_type": 1}) == 1
    assert [is_consumer_protocol(kind) for kind in (None, "", "consumer", "connect")] == [
        True,
        True,
        True,
        False,
    ]
