"""Values by role in decoded messages: each with the struct that it stands in, embedded messages included."""

import pytest

from kdissect.exchanges.field_search import finder
from kdissect.protocol.codec.messages import encode_embedded
from kdissect.protocol.schema.parser import parse
from kdissect.protocol.schema.registry import APIS
from tests.helpers.every_message import ALL_MESSAGES

(X,) = parse(
    "x.txt",
    """X  versions 0-1  flexible 1+
  name     string?             @topic
  topics   []?
    name   string              @topic
    group  string     1+       @group
  inner    {}?      1+  tag 0
    name   string              @topic
""",
)
TOPIC, GROUP = frozenset({"topic"}), frozenset({"group"})


def test_values_come_with_their_role_and_struct_in_wire_order() -> None:
    topics = [{"name": "b", "group": "g"}, {"name": "c", "group": "h"}]
    tree = {"name": "a", "topics": topics, "inner": {"name": "d"}}
    find = finder(X, 1, TOPIC)
    assert find is not None
    assert find(tree) == [
        ("topic", "a", tree),
        ("topic", "b", topics[0]),
        ("topic", "c", topics[1]),
        ("topic", "d", tree["inner"]),
    ]


def test_several_roles_are_found_in_one_walk() -> None:
    find = finder(X, 1, TOPIC | GROUP)
    assert find is not None
    assert [found[:2] for found in find({"topics": [{"name": "b", "group": "g"}]})] == [
        ("topic", "b"),
        ("group", "g"),
    ]


@pytest.mark.parametrize("tree", [{}, {"name": None, "topics": None, "inner": None}, {"topics": []}])
def test_what_is_null_or_missing_is_not_found(tree: dict[str, object]) -> None:
    find = finder(X, 1, TOPIC)
    assert find is not None
    assert find(tree) == []


def test_a_message_that_cannot_have_a_role_has_no_finder() -> None:
    assert finder(X, 0, GROUP) is None
    assert finder(X, 1, frozenset()) is None
    assert finder(APIS[12].request, 0, TOPIC) is None


def test_a_finder_is_made_once() -> None:
    assert finder(X, 1, TOPIC) is finder(X, 1, frozenset({"topic"}))


SUBSCRIPTION = encode_embedded("ConsumerProtocolSubscription", 1, {"topics": ["orders", "bills"]})


def test_messages_inside_bytes_are_searched_too() -> None:
    find = finder(APIS[11].request, 5, TOPIC)
    assert find is not None
    tree = {"protocol_type": "consumer", "protocols": [{"name": "range", "metadata": SUBSCRIPTION}]}
    assert [value for _, value, _ in find(tree)] == ["orders", "bills"]


@pytest.mark.parametrize("data", [b"", b"\0", SUBSCRIPTION[:-1], b"\x7f\xff" + SUBSCRIPTION[2:]])
def test_bytes_that_cannot_be_decoded_are_passed_over(data: bytes) -> None:
    find = finder(APIS[11].request, 5, TOPIC)
    assert find is not None
    assert find({"protocols": [{"name": "range", "metadata": data}]}) == []


def test_every_message_can_be_searched_for_topics() -> None:
    having = {m.name for m in ALL_MESSAGES if any(finder(m, version, TOPIC) for version in m.versions)}
    assert {"ProduceRequest", "FetchResponse", "JoinGroupRequest", "ConsumerProtocolSubscription"} <= having
    assert not {"HeartbeatRequest", "ApiVersionsRequest"} & having
