"""Contents of the schema files: all keys and versions, facts that no definition states, roles everywhere."""

import subprocess
import sys
from pathlib import Path

import pytest

from kdissect.package_archive import pack
from kdissect.protocol.codec.decode import least_size
from kdissect.protocol.schema.definition import (
    PRIMITIVES,
    Field,
    Message,
    every_field,
    fields_at,
)
from kdissect.protocol.schema.registry import (
    APIS,
    api_name,
    highest_versions,
    is_known,
    request_header_version,
    response_header_version,
)
from tests.helpers.every_message import ALL_MESSAGES, REQUESTS_AND_RESPONSES


def roles_of(message: Message) -> dict[str, str | None]:
    return {path: field.role for path, field in every_field(message)}


def test_every_key_and_every_version_that_ever_existed() -> None:
    """Later releases add keys and versions; none of those that Kafka 4.4 had may go."""
    assert list(APIS) == list(range(len(APIS)))
    assert all(api.versions[0] == 0 for api in APIS.values())
    assert len(APIS) >= 95
    assert sum(len(api.versions) for api in APIS.values()) >= 368
    assert sum(len(api.live) for api in APIS.values()) >= 302


def test_the_apis_that_kafka_4_removed_are_still_there() -> None:
    removed = {api.name: api.versions[-1] for api in APIS.values() if not api.live}
    assert removed == {"LeaderAndIsr": 7, "StopReplica": 4, "UpdateMetadata": 8, "ControlledShutdown": 3}


def test_names() -> None:
    assert api_name(0) == "Produce"
    assert api_name(92) == "DeleteShareGroupOffsets"
    assert api_name(len(APIS)) == f"UNKNOWN({len(APIS)})"
    assert api_name(-1) == "UNKNOWN(-1)"
    former = {api.former_name: api.name for api in APIS.values() if api.former_name}
    assert former == {
        "ListOffset": "ListOffsets",
        "ElectPreferredLeaders": "ElectLeaders",
        "AlterIsr": "AlterPartition",
        "ListClientMetricsResources": "ListConfigResources",
    }


@pytest.mark.parametrize(
    ("key", "version", "known"),
    [
        (0, 0, True),
        (0, APIS[0].versions[-1], True),
        (0, APIS[0].versions[-1] + 1, False),
        (0, -1, False),
        (len(APIS), 0, False),
        (-1, 0, False),
        (7, 0, True),
    ],
)
def test_is_known(key: int, version: int, known: bool) -> None:
    assert is_known(key, version) is known


def test_highest_versions_are_indexed_by_key() -> None:
    highest = highest_versions()
    assert len(highest) == len(APIS)
    assert all(highest[key] == api.versions[-1] for key, api in APIS.items())


# Header versions follow flexibility, but for ControlledShutdown 0 and for the responses of ApiVersions;
# versions newer than ours have the header of the newest.
@pytest.mark.parametrize(
    ("key", "version", "request_version", "response_version"),
    [
        (0, 8, 1, 0),
        (0, 9, 2, 1),
        (7, 0, 0, 0),
        (7, 1, 1, 0),
        (7, 3, 2, 1),
        (18, 2, 1, 0),
        (18, 3, 2, 0),
        (17, 1, 1, 0),
        (0, 99, 2, 1),
        (18, 99, 2, 0),
        (17, 9, 1, 0),
        (0, -1, 1, 0),
    ],
)
def test_header_versions(key: int, version: int, request_version: int, response_version: int) -> None:
    assert request_header_version(key, version) == request_version
    assert response_header_version(key, version) == response_version


def test_flexible_versions_are_the_highest_of_an_api() -> None:
    for api in APIS.values():
        assert not api.flexible or api.flexible[-1] == api.versions[-1], api.name
        assert api.request.versions == api.response.versions == api.versions
        assert api.request.flexible == api.response.flexible == api.flexible


@pytest.mark.parametrize("message", ALL_MESSAGES, ids=lambda message: message.name)
def test_children_stay_within_their_parents(message: Message) -> None:
    def check(owner: Message | Field) -> None:
        for field in owner.fields:
            assert field.versions
            assert set(field.versions) <= set(owner.versions)
            assert set(field.nullable) <= set(field.versions)
            assert field.type in PRIMITIVES or field.type == "struct"
            check(field)

    check(message)


@pytest.mark.parametrize("message", ALL_MESSAGES, ids=lambda message: message.name)
def test_no_element_of_an_array_is_empty(message: Message) -> None:
    """Else a count would not be bounded by the bytes that are left."""
    for path, field in every_field(message):
        if field.array and field.type == "struct":
            for version in field.versions:
                assert least_size(field, version, version in message.flexible) >= 1, (path, version)


def owners(message: Message) -> list[Message | Field]:
    """Return the message and all of its fields."""
    return [message, *(field for _, field in every_field(message))]


@pytest.mark.parametrize("message", REQUESTS_AND_RESPONSES, ids=lambda message: message.name)
def test_tags_are_unique(message: Message) -> None:
    for owner in owners(message):
        for version in owner.versions:
            tags = [field.tag for field in fields_at(owner, version) if field.tag is not None]
            assert tags == sorted(set(tags))


# The role of a field says what its name says, in every API and version.
BY_NAME = {
    "error_code": "error",
    "error_message": "error_message",
    "throttle_time_ms": "throttle",
    "group_id": "group",
    "member_id": "member",
    "group_instance_id": "instance",
    "transactional_id": "transactional_id",
    "producer_id": "producer_id",
    "producer_epoch": "producer_epoch",
    "topic_id": "topic_id",
    "topic_name": "topic",
    "partition_index": "partition",
    "leader_epoch": "leader_epoch",
    "port": "port",
    "cluster_id": "cluster",
    "broker_id": "broker",
    "node_id": "broker",
    "rack": "rack",
    "hmac": "secret",
    "auth_bytes": "secret",
}


@pytest.mark.parametrize(("name", "role"), BY_NAME.items(), ids=BY_NAME)
def test_a_name_that_speaks_for_itself_has_its_role(name: str, role: str) -> None:
    found = [
        (message.name, path, field.role)
        for message in ALL_MESSAGES
        for path, field in every_field(message)
        if field.name == name
    ]
    assert found
    assert [(where, path, is_role) for where, path, is_role in found if is_role != role] == []


def test_every_error_code_has_the_role_and_nothing_else_has() -> None:
    for message in ALL_MESSAGES:
        for path, field in every_field(message):
            is_error = field.role in ("error", "config_error")
            assert is_error == field.name.endswith("error_code"), (message.name, path)
            assert field.role != "error" or (field.type, field.array) == ("int16", False)


def test_every_host_has_its_port_beside_it() -> None:
    for message in ALL_MESSAGES:
        for owner in owners(message):
            for version in owner.versions:
                roles = [field.role for field in fields_at(owner, version)]
                assert ("host" in roles) == ("port" in roles), (message.name, owner.name, version)


# Roles that may stand twice in one struct; all others say which value is meant without its name.
REPEATED = {"error", "error_message", "timestamp", "principal", "secret", "leader_epoch"}


@pytest.mark.parametrize("message", REQUESTS_AND_RESPONSES, ids=lambda message: message.name)
def test_a_role_says_which_value_is_meant(message: Message) -> None:
    for owner in owners(message):
        for version in owner.versions:
            roles = [field.role for field in fields_at(owner, version) if field.role and not field.array]
            assert {role for role in roles if roles.count(role) > 1} <= REPEATED, (owner.name, version)


@pytest.mark.parametrize(
    ("key", "half", "paths"),
    [
        (36, "request", {"auth_bytes"}),
        (36, "response", {"auth_bytes"}),
        (38, "response", {"hmac"}),
        (39, "request", {"hmac"}),
        (40, "request", {"hmac"}),
        (41, "response", {"tokens.hmac"}),
        (51, "request", {"upsertions.salt", "upsertions.salted_password"}),
        (32, "response", {"results.configs.value", "results.configs.synonyms.value"}),
        (33, "request", {"resources.configs.value"}),
        (44, "request", {"resources.configs.value"}),
        (19, "request", {"topics.configs.value"}),
        (19, "response", {"topics.configs.value"}),
    ],
)
def test_what_may_let_someone_in_is_marked(key: int, half: str, paths: set[str]) -> None:
    message = getattr(APIS[key], half)
    assert {path for path, role in roles_of(message).items() if role in ("secret", "config_value")} == paths


def test_what_is_carried_in_bytes_is_named() -> None:
    carried = {
        (message.name, path): field.embedded
        for message in REQUESTS_AND_RESPONSES
        for path, field in every_field(message)
        if field.embedded
    }
    assert carried == {
        ("JoinGroupRequest", "protocols.metadata"): "ConsumerProtocolSubscription",
        ("JoinGroupResponse", "members.metadata"): "ConsumerProtocolSubscription",
        ("SyncGroupRequest", "assignments.assignment"): "ConsumerProtocolAssignment",
        ("SyncGroupResponse", "assignment"): "ConsumerProtocolAssignment",
        ("DescribeGroupsResponse", "groups.members.member_metadata"): "ConsumerProtocolSubscription",
        ("DescribeGroupsResponse", "groups.members.member_assignment"): "ConsumerProtocolAssignment",
        ("EnvelopeRequest", "request_principal"): "DefaultPrincipalData",
    }


def test_the_schema_is_read_from_a_zip_too(tmp_path: Path) -> None:
    """Executors of a cluster get the package as a zip file, which unpacks itself into their cache."""
    archive = pack(tmp_path)
    code = "from kdissect.protocol.schema import registry; print(registry.__file__, len(registry.APIS))"
    ran = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={"PYTHONPATH": str(archive), "XDG_CACHE_HOME": str(tmp_path / "cache")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    place, count = ran.stdout.split()
    assert Path(place).is_relative_to(tmp_path / "cache" / "kdissect")
    assert count == str(len(APIS))
