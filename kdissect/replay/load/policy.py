"""Which requests may go to the target at all: a table by API key, decided before anything else.

No flag allows `NEVER`: what brokers say to brokers can move a high watermark or end other people's
transactions on a cluster without an authorizer, security requests hold secrets, and some requests cannot be
undone. Destructive requests are off one by one, and need a name that the operator chose.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from kdissect.protocol.api_keys import (
    ADMIN,
    DATA,
    GROUP_COMMITS,
    GROUP_MEMBERSHIP,
    HANDSHAKE,
    INTER_BROKER,
    IRREVERSIBLE,
    READ,
    SECURITY,
    STREAMS_MEMBERSHIP,
    TELEMETRY,
    ApiKey,
)
from kdissect.protocol.schema.registry import APIS, api_name
from kdissect.replay.disposition import Disposition
from kdissect.replay.settings import Groups, ReplaySettings

FIRST_OF_CONSUMERS = 2  # OffsetForLeaderEpoch; the version from which consumers ask (KIP-320)
NEVER = HANDSHAKE | SECURITY | IRREVERSIBLE | TELEMETRY | INTER_BROKER  # whatever anybody allows

ADMIN_CLIENT = "__admin_client"  # brokers let it write internal topics
INTERNAL_TOPICS = frozenset({"_schemas"})
INTERNAL_PREFIXES = ("__", "connect-offsets", "connect-configs", "connect-status")


class Refusal(NamedTuple):
    """Why a request is not sent."""

    bucket: Disposition
    reason: str


def is_internal(topic: str | None) -> bool:
    """Return whether a topic belongs to Kafka or to a tool beside it, and not to users."""
    return topic is not None and (topic in INTERNAL_TOPICS or topic.startswith(INTERNAL_PREFIXES))


def refusal_by_key(key: int, settings: ReplaySettings) -> Refusal | None:
    """Return why requests of an API are not sent; None if they may be."""
    if key not in APIS:
        return Refusal(Disposition.POLICY, f"API key {key} is not known")
    if key in INTER_BROKER:
        return Refusal(Disposition.INTER_BROKER, f"{api_name(key)} is spoken between brokers")
    for keys, reason in FIXED:
        if key in keys:
            return Refusal(Disposition.POLICY, reason)
    if key in ADMIN and key not in settings.allowed_apis:
        return Refusal(
            Disposition.POLICY, f"{api_name(key)} changes the cluster: off unless --allow {api_name(key)}"
        )
    if key in GROUP_MEMBERSHIP and settings.groups is not Groups.FULL:
        return Refusal(
            Disposition.POLICY, f"group membership is replayed with --groups full, not {settings.groups}"
        )
    if key in GROUP_COMMITS and settings.groups is Groups.OFF:
        return Refusal(Disposition.POLICY, "offsets are committed with --groups simple or full")
    if key not in READ | DATA | ADMIN | GROUP_MEMBERSHIP | GROUP_COMMITS:
        return Refusal(Disposition.POLICY, f"{api_name(key)} is in no class that may be replayed")
    return None


FIXED = (
    (HANDSHAKE, "the replayer shakes hands itself"),
    (SECURITY, "security is never replayed"),
    (IRREVERSIBLE, "it cannot be undone"),
    (TELEMETRY, "the target asks for metrics itself"),
    (
        STREAMS_MEMBERSHIP,
        "streams groups are not replayed: their tasks live by state that only the application has",
    ),
)


def refusal_by_content(
    key: int, version: int, body: Mapping[str, Any], client_id: str | None
) -> Refusal | None:
    """Return why a request is not sent, by its content: what only brokers say is never sent."""
    replica = body.get("replica_id", -1)
    if key == ApiKey.FETCH:
        replica = max(replica, (body.get("replica_state") or {}).get("replica_id", -1))
    if key in (ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH) and replica >= 0:
        return Refusal(Disposition.INTER_BROKER, f"replica {replica} asks as a follower")
    if key == ApiKey.OFFSET_FOR_LEADER_EPOCH and version < FIRST_OF_CONSUMERS:
        return Refusal(Disposition.INTER_BROKER, "only followers asked so for leader epochs")
    if key == ApiKey.ADD_PARTITIONS_TO_TXN and version >= 4:
        return Refusal(Disposition.INTER_BROKER, "brokers verify transactions for each other")
    if key == ApiKey.JOIN_GROUP and body["protocol_type"] != "consumer":
        return Refusal(
            Disposition.POLICY, f"groups of protocol type {body['protocol_type']!r} are not supported"
        )
    if key == ApiKey.PRODUCE and client_id == ADMIN_CLIENT:
        return Refusal(Disposition.POLICY, f"client id {ADMIN_CLIENT} may write internal topics")
    return None
