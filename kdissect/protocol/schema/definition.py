"""What a message is made of: the values that the schema files become, and the words they may use.

A `Field` stands for all versions of itself, so a message is one tree and not one per version; `fields_at`
returns those of a single version. Versions are Python ranges. `PRIMITIVES` are the types, `ROLES` the
meanings: a role says what a value is wherever it appears, so that "hide topic names" or "rename orders" is
one rule for all APIs and versions.
"""

from collections.abc import Iterator
from dataclasses import dataclass

NONE = range(0)

UNKNOWN_TAGS = "_tags"  # no field of Kafka starts with an underscore

EMPTY_ARRAY = bytes(4)

Default = int | float | str | bytes | tuple[()] | None


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message, over all versions of it."""

    name: str
    type: str  # a key of PRIMITIVES, or "struct"
    array: bool
    versions: range  # where it exists, within its parent's
    nullable: range  # where it may be null
    tag: int | None  # set: a tagged field in all of its versions
    default: Default  # what an absent tagged field means; () is an empty array, or a struct of defaults
    role: str | None  # a key of ROLES
    embedded: str | None  # the message that the bytes carry
    fields: tuple["Field", ...]


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """One body: a request, a response, or a message carried elsewhere.

    A message is equal to itself only, so it is a cheap key for caches.
    """

    name: str
    versions: range
    flexible: range
    fields: tuple[Field, ...]
    header: tuple[range, int] | None = None  # versions whose header has this version, against the rule
    prefixed: bool = False  # a 2-byte version stands before the body
    trailing: range = NONE  # versions behind which some clients write one empty array more, of no meaning


@dataclass(frozen=True, slots=True)
class Api:
    """One API key: its request and its response, which always share their versions."""

    key: int
    name: str
    versions: range
    flexible: range
    live: range
    former_name: str | None
    request: Message
    response: Message
    unstable: range = NONE  # live versions that brokers serve only with unstable.api.versions.enable


def fields_at(owner: Message | Field, version: int) -> tuple[Field, ...]:
    """Return the fields of a message or a struct in one version: untagged in wire order, then tagged ones."""
    present = [field for field in owner.fields if version in field.versions]
    untagged = [field for field in present if field.tag is None]
    tagged = [field for field in present if field.tag is not None]
    return (*untagged, *sorted(tagged, key=lambda field: field.tag or 0))


def every_field(owner: Message | Field, path: str = "") -> Iterator[tuple[str, Field]]:
    """Yield all fields of a message, depth first, as (dotted path, field)."""
    for field in owner.fields:
        where = f"{path}.{field.name}" if path else field.name
        yield where, field
        yield from every_field(field, where)


# Every primitive with its zero, which is what an absent field means where the schema says nothing else.
PRIMITIVES: dict[str, Default] = {
    "bool": False,
    "int8": 0,
    "int16": 0,
    "uint16": 0,
    "int32": 0,
    "int64": 0,
    "float64": 0.0,
    "uuid": bytes(16),
    "string": "",
    "int16_string": "",  # a string whose length stays int16 in flexible versions
    "bytes": b"",
    "records": b"",
}

ROLES = {
    "acks": "how many replicas must have a produce request before it is answered",
    "api_key": "an API key",
    "api_version": "the version of an API",
    "broker": "the node id of a broker, controller or voter",
    "broker_epoch": "the epoch a broker got when it registered",
    "client_host": "the address a client comes from, or a pattern of such",
    "client_id": "the name a client gives itself in every request",
    "client_instance": "the UUID of a client that sends telemetry",
    "client_software_name": "the name of a client library",
    "client_software_version": "the version of a client library",
    "cluster": "the id of a cluster",
    "config_value": "the value of a setting, which may be a password",
    "coordinator_key": "group or transactional id, by coordinator_type, whose coordinator is requested",
    "coordinator_type": "what kind of name a coordinator_key is",
    "correlation_id": "the number that pairs a response with its request",
    "current_leader_epoch": "leader epoch that a client knows; a broker accepts only its own, or -1",
    "diverging_offset": "the end offset where a follower's log diverges from the leader's",
    "error": "an error code",
    "error_message": "an error in words",
    "fetch_epoch": "the count of requests in a fetch session or share session",
    "fetch_session": "the id of a fetch session",
    "first_offset": "the first of a range of record offsets",
    "generation": "the generation of a group, or the epoch of a member",
    "group": "the id of a group",
    "group_leader": "the id of the member that assigns partitions to all",
    "high_watermark": "the offset after the last record that all in-sync replicas have",
    "host": "the host name or address where a node or client listens",
    "instance": "the group.instance.id of a static member",
    "last_offset": "the last of a range of record offsets",
    "last_stable_offset": "the offset before which every transaction has ended",
    "leader_epoch": "the epoch of a partition's leader, now or when a record was written",
    "log_end_offset": "the offset after the last record of a replica",
    "log_start_offset": "the offset of the first record that is still there",
    "max_bytes": "the most bytes that a fetch may return",
    "max_wait": "how long a fetch may wait for data, in ms",
    "member": "the id of a group member",
    "min_bytes": "how much data a fetch waits for",
    "offset": "the offset an exchange is about: base, fetch, committed, listed or start offset",
    "ongoing_producer_epoch": "the producer epoch of a transaction that was left open",
    "ongoing_producer_id": "the producer id of a transaction that was left open",
    "partition": "the number of a partition",
    "port": "the port that belongs to a host",
    "principal": "the name of a user or service",
    "producer_epoch": "the epoch of a producer id",
    "producer_id": "the id of an idempotent or transactional producer",
    "quota_entity": "what a quota applies to, named by its quota_entity_type",
    "quota_entity_type": "user, client-id or ip",
    "rack": "the rack of a broker or client",
    "records": "record batches or a message set",
    "replica": "the broker that asks as a follower, -1 for a consumer",
    "resource": "the name of a resource of the resource_type beside it, such as a topic",
    "resource_type": "what kind of thing a resource is",
    "sasl_mechanism": "the name of a SASL mechanism",
    "secret": "bytes that may let someone in: SASL tokens, salts, HMACs",
    "sensitive": "whether the config_value beside it is a secret",
    "snapshot_offset": "the end offset that names a snapshot",
    "throttle": "how long a quota delayed the answer, in ms",
    "timestamp": "a time in ms since the epoch, or a query of one",
    "topic": "the name of a topic",
    "topic_id": "the UUID of a topic",
    "topic_pattern": "a regular expression over topic names",
    "transactional_id": "the id of a transactional producer",
    "transactional_id_pattern": "a regular expression over transactional ids",
}
