"""The meanings that a field of the schema may have, and which of them the columnar reader keeps.

A role says what a value is wherever it appears, so that "hide topic names" or "rename orders" is one rule for
all APIs and versions. The plain codec reads every field. The columnar reader keeps the roles that name a
column: `message` for one value of each message, `row` for each topic-partition, `broker` for each node named.
Its tables of registers are made from this (`protocol.columnar.registers`), and nothing else changes.
"""

from typing import Literal, NamedTuple

Kind = Literal["integer", "span"]


class Role(NamedTuple):
    """Meaning of a value, and the columns in which it is kept, "" for none.

    `kind` is how a column keeps it: as a number, or as the place and the length of its bytes.
    """

    meaning: str
    kind: Kind = "integer"
    message: str = ""
    row: str = ""
    broker: str = ""


ROLES = {
    "acks": Role("how many replicas must have a produce request before it is answered", message="acks"),
    "api_key": Role("an API key"),
    "api_version": Role("the version of an API"),
    "broker": Role("the node id of a broker, controller or voter", broker="node_id"),
    "broker_epoch": Role("the epoch a broker got when it registered"),
    "client_host": Role("the address a client comes from, or a pattern of such"),
    "client_id": Role("the name a client gives itself in every request", "span", message="client_id"),
    "client_instance": Role("the UUID of a client that sends telemetry"),
    "client_software_name": Role("the name of a client library", "span", message="client_software_name"),
    "client_software_version": Role(
        "the version of a client library", "span", message="client_software_version"
    ),
    "cluster": Role("the id of a cluster"),
    "config_error": Role("an error code that says why settings are not shown"),
    "config_value": Role("the value of a setting, which may be a password"),
    "coordinator_key": Role(
        "group or transactional id, by coordinator_type, whose coordinator is requested",
        "span",
        message="coordinator_key",
    ),
    "coordinator_type": Role("what kind of name a coordinator_key is", message="coordinator_type"),
    "correlation_id": Role("the number that pairs a response with its request"),
    "current_leader_epoch": Role("leader epoch that a client knows; a broker accepts only its own, or -1"),
    "diverging_offset": Role("the end offset where a follower's log diverges from the leader's"),
    "error": Role("an error code; of a partition the first that is not 0", row="error_code"),
    "error_message": Role("an error in words"),
    "fetch_epoch": Role("the count of requests in a fetch session or share session"),
    "fetch_session": Role("the id of a fetch session"),
    "first_offset": Role("the first of a range of record offsets"),
    "generation": Role("the generation of a group, or the epoch of a member", message="generation"),
    "group": Role("the id of a group", "span", message="group"),
    "group_leader": Role("the id of the member that assigns partitions to all"),
    "high_watermark": Role(
        "the offset after the last record that all in-sync replicas have", row="high_watermark"
    ),
    "host": Role("the host name or address where a node or client listens", "span", broker="host"),
    "instance": Role("the group.instance.id of a static member"),
    "isolation": Role("which transactions a reader sees: 0 all, 1 committed ones", message="isolation_level"),
    "last_offset": Role("the last of a range of record offsets"),
    "last_stable_offset": Role(
        "the offset before which every transaction has ended", row="last_stable_offset"
    ),
    "leader_epoch": Role("the epoch of a partition's leader, now or when a record was written"),
    "log_end_offset": Role("the offset after the last record of a replica"),
    "log_start_offset": Role("the offset of the first record that is still there", row="log_start_offset"),
    "max_bytes": Role("the most bytes that a fetch may return"),
    "max_wait": Role("how long a fetch may wait for data, in ms", message="max_wait_ms"),
    "member": Role("the id of a group member", "span", message="member"),
    "min_bytes": Role("how much data a fetch waits for", message="min_bytes"),
    "offset": Role(
        "the offset an exchange is about: base, fetch, committed, listed or start offset", row="offset"
    ),
    "ongoing_producer_epoch": Role("the producer epoch of a transaction that was left open"),
    "ongoing_producer_id": Role("the producer id of a transaction that was left open"),
    "partition": Role("the number of a partition", row="partition"),
    "port": Role("the port that belongs to a host", broker="port"),
    "principal": Role("the name of a user or service"),
    "producer_epoch": Role("the epoch of a producer id", message="producer_epoch", row="producer_epoch"),
    "producer_id": Role(
        "the id of an idempotent or transactional producer", message="producer_id", row="producer_id"
    ),
    "quota_entity": Role("what a quota applies to, named by its quota_entity_type"),
    "quota_entity_type": Role("user, client-id or ip"),
    "rack": Role("the rack of a broker or client"),
    "records": Role("record batches or a message set", "span", row="record_set"),
    "replica": Role("the broker that asks as a follower, -1 for a consumer", message="replica_id"),
    "resource": Role("the name of a resource of the resource_type beside it, such as a topic"),
    "resource_type": Role("what kind of thing a resource is"),
    "sasl_mechanism": Role("the name of a SASL mechanism", "span", message="sasl_mechanism"),
    "secret": Role("bytes that may let someone in: SASL tokens, salts, HMACs"),
    "sensitive": Role("whether the config_value beside it is a secret"),
    "snapshot_offset": Role("the end offset that names a snapshot"),
    "throttle": Role("how long a quota delayed the answer, in ms", message="throttle_ms"),
    "timestamp": Role("a time in ms since the epoch, or a query of one"),
    "topic": Role("the name of a topic", "span", row="topic"),
    "topic_id": Role("the UUID of a topic", "span", row="topic_id"),
    "topic_pattern": Role("a regular expression over topic names"),
    "transactional_id": Role("the id of a transactional producer", "span", message="transactional_id"),
    "transactional_id_pattern": Role("a regular expression over transactional ids"),
}
