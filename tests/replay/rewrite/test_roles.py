"""`replay.rewrite.roles`, against a target on paper."""

from __future__ import annotations

from random import Random

import pytest

from kdissect.protocol.codec.messages import (
    decode,
    decode_embedded,
    encode,
    encode_embedded,
)
from kdissect.protocol.schema.definition import every_field
from kdissect.protocol.schema.registry import APIS
from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.rewrite.names import Names
from kdissect.replay.rewrite.roles import rewriter
from tests.helpers.paper_target import settings
from tests.helpers.random_messages import random_message
from tests.helpers.rewriting_cases import NEW, OLD, Anything, rewritten, values


def test_one_rule_for_topics_wherever_they_stand() -> None:
    assert rewritten(3, 4, {"topics": [{"name": "orders"}]})["topics"] == [{"name": "t-orders"}]
    assert rewritten(1, 13, {"topics": [{"topic_id": OLD, "partitions": []}]})["topics"][0]["topic_id"] == NEW
    assert rewritten(68, 1, {"subscribed_topic_names": ["orders", "x"]})["subscribed_topic_names"] == [
        "t-orders",
        "t-x",
    ]
    described = rewritten(
        32, 1, {"resources": [{"resource_type": kind, "resource_name": "orders"} for kind in (2, 3, 4)]}
    )
    assert [each["resource_name"] for each in described["resources"]] == ["t-orders", "t-orders", "orders"]


def test_what_belongs_to_the_captured_cluster_is_neutral() -> None:
    partition = {"partition": 0, "current_leader_epoch": 9, "fetch_offset": 5, "last_fetched_epoch": 8}
    body = {"cluster_id": "src", "rack_id": "a", "topics": [{"topic_id": OLD, "partitions": [partition]}]}
    out = rewritten(1, 17, body)
    assert out["cluster_id"] is None
    assert out["rack_id"] == ""
    assert out["topics"][0]["partitions"][0] == partition | {
        "current_leader_epoch": -1,
        "last_fetched_epoch": -1,
    }


def test_ids_without_names_patterns_and_share_keys_are_refused() -> None:
    for key, version, body, bucket in (
        (1, 13, {"topics": [{"topic_id": b"?" * 16, "partitions": []}]}, Disposition.HEADLESS),
        (68, 1, {"subscribed_topic_regex": "or.*"}, Disposition.POLICY),
        (10, 6, {"key_type": 2, "coordinator_keys": ["g:t:0"]}, Disposition.POLICY),
    ):
        with pytest.raises(SkipRequest) as refused:
            rewritten(key, version, body)
        assert refused.value.bucket is bucket


def test_members_do_not_say_what_they_owned() -> None:
    said = {
        "topics": ["orders"],
        "user_data": b"u",
        "owned_partitions": [{"topic": "orders", "partitions": [1]}],
        "generation_id": 4,
        "rack_id": "a",
    }
    metadata = encode_embedded("ConsumerProtocolSubscription", 3, said)
    body = {
        "group_id": "g",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": metadata}],
    }
    out = rewritten(11, 5, body)["protocols"][0]["metadata"]
    assert decode_embedded("ConsumerProtocolSubscription", out).value == {
        "topics": ["t-orders"],
        "user_data": b"u",
        "owned_partitions": [],
        "generation_id": -1,
        "rack_id": None,
    }


@pytest.mark.parametrize(
    ("key", "role"), [(key, "group") for key in APIS] + [(key, "transactional_id") for key in APIS]
)
def test_no_group_or_transactional_id_is_forgotten(key: int, role: str) -> None:
    """Walk every request in its newest version: each text of the role has the prefix after the rewriting."""
    api = APIS[key]
    version = api.versions[-1]
    paths = [
        path for path, field in every_field(api.request) if field.role == role and version in field.versions
    ]
    if not paths:
        return
    body = random_message(Random(3), api.request, version)
    before = encode(api.request, version, body)
    tree = decode(api.request, version, before).value
    try:
        rewriter(api.request, version)(tree, Names(settings(topic_map={}), Anything()))
    except SkipRequest:
        return  # a pattern or an id without a name is in it: it would not be sent
    for path in paths:
        for value in values(tree, path.split(".")):
            assert value in (None, "") or value.startswith("t-"), path
