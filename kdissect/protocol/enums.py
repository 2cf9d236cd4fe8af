"""Words for numbers: what the value of a field means, in lower case as Kafka's documents name it.

`words_of(message, field)` returns the function from a value to its word, None for a field that is only a
number. An unknown value has no word. The name of a field decides, since Kafka uses one name for one
enumeration. If one name has two (resource types of ACLs and of configs), the message decides too.
"""

from collections.abc import Callable, Mapping

from kdissect.protocol.error_codes import error_name
from kdissect.protocol.records.batches import CODEC_NAMES
from kdissect.protocol.schema.definition import Field, Message
from kdissect.protocol.schema.registry import api_name

Words = Callable[[int], str | None]

NOT_ASKED_FOR = -(2**31)  # authorized_operations when the request did not include them


def words_of(message: Message, field: Field) -> Words | None:
    """Return the function that names this field's values, if they have names."""
    if field.role in FUNCTIONS:
        return FUNCTIONS[field.role]
    if field.name.endswith("authorized_operations") and field.type == "int32":
        return operations
    scope = next((prefix for prefix in SCOPED if message.name.startswith(prefix)), "")
    table = SCOPED.get(scope, {}).get(field.name) or TABLES.get(field.name)
    return table.get if table and field.type.startswith("int") else None


def operations(bits: int) -> str | None:
    """Return the names of the ACL operations in a bit set (KIP-430); None if they were not requested."""
    if bits == NOT_ASKED_FOR:
        return None
    named = (ACL_OPERATIONS.get(bit, str(bit)) for bit in range(32) if bits >> bit & 1)
    return ", ".join(named) or "none"


ACL_OPERATIONS = {
    0: "unknown",
    1: "any",
    2: "all",
    3: "read",
    4: "write",
    5: "create",
    6: "delete",
    7: "alter",
    8: "describe",
    9: "cluster_action",
    10: "describe_configs",
    11: "alter_configs",
    12: "idempotent_write",
    13: "create_tokens",
    14: "describe_tokens",
    15: "two_phase_commit",
}
ACL_PERMISSIONS = {0: "unknown", 1: "any", 2: "deny", 3: "allow"}
PATTERN_TYPES = {0: "unknown", 1: "any", 2: "match", 3: "literal", 4: "prefixed"}
ACL_RESOURCES = {
    0: "unknown",
    1: "any",
    2: "topic",
    3: "group",
    4: "cluster",
    5: "transactional_id",
    6: "delegation_token",
    7: "user",
}
CONFIG_RESOURCES = {
    0: "unknown",
    2: "topic",
    4: "broker",
    8: "broker_logger",
    16: "client_metrics",
    32: "group",
}
CONFIG_SOURCES = {
    0: "unknown",
    1: "dynamic_topic",
    2: "dynamic_broker",
    3: "dynamic_default_broker",
    4: "static_broker",
    5: "default",
    6: "dynamic_broker_logger",
    7: "dynamic_client_metrics",
    8: "dynamic_group",
}
CONFIG_TYPES = {
    0: "unknown",
    1: "boolean",
    2: "string",
    3: "int",
    4: "short",
    5: "long",
    6: "double",
    7: "list",
    8: "class",
    9: "password",
}
TIMESTAMP_TYPES = {0: "create_time", 1: "log_append_time"}
ISOLATION_LEVELS = {0: "read_uncommitted", 1: "read_committed"}
COORDINATOR_TYPES = {0: "group", 1: "transaction", 2: "share"}
ACKS = {-1: "all", 0: "none", 1: "leader"}
DELIVERY_STATES = {0: "available", 1: "acquired", 2: "acknowledged", 3: "archiving", 4: "archived"}
ACKNOWLEDGE_TYPES = {0: "gap", 1: "accept", 2: "release", 3: "reject", 4: "renew"}
OFFSET_QUERIES = {
    -1: "latest",
    -2: "earliest",
    -3: "max_timestamp",
    -4: "earliest_local",
    -5: "latest_tiered",
    -6: "earliest_pending_upload",
}

FUNCTIONS: Mapping[str | None, Words] = {
    "error": error_name,
    "config_error": error_name,
    "api_key": api_name,
    "acks": ACKS.get,
    "coordinator_type": COORDINATOR_TYPES.get,
}

TABLES: Mapping[str, Mapping[int, str]] = {
    "isolation_level": ISOLATION_LEVELS,
    "operation": ACL_OPERATIONS,
    "permission_type": ACL_PERMISSIONS,
    "pattern_type": PATTERN_TYPES,
    "pattern_type_filter": PATTERN_TYPES,
    "resource_pattern_type": PATTERN_TYPES,
    "resource_type": CONFIG_RESOURCES,
    "resource_types": CONFIG_RESOURCES,
    "config_source": CONFIG_SOURCES,
    "source": CONFIG_SOURCES,
    "config_type": CONFIG_TYPES,
    "config_operation": {0: "set", 1: "delete", 2: "append", 3: "subtract"},
    "mechanism": {0: "unknown", 1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"},
    "match_type": {0: "exact", 1: "default", 2: "any"},
    "election_type": {0: "preferred", 1: "unclean"},
    "upgrade_type": {0: "unknown", 1: "upgrade", 2: "safe_downgrade", 3: "unsafe_downgrade"},
    "endpoint_type": {0: "unknown", 1: "broker", 2: "controller"},
    "compression_type": CODEC_NAMES,
    "accepted_compression_types": CODEC_NAMES,
    "acknowledge_types": ACKNOWLEDGE_TYPES,
    "delivery_state": DELIVERY_STATES,
    "share_acquire_mode": {0: "batch_optimized", 1: "record_limit"},
    "leader_recovery_state": {0: "recovered", 1: "recovering"},
    "member_type": {-1: "unknown", 0: "classic", 1: "consumer"},
    "security_protocol": {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"},
}

SCOPED: Mapping[str, Mapping[str, Mapping[int, str]]] = {
    "DescribeAcls": {"resource_type": ACL_RESOURCES, "resource_type_filter": ACL_RESOURCES},
    "CreateAcls": {"resource_type": ACL_RESOURCES},
    "DeleteAcls": {"resource_type": ACL_RESOURCES, "resource_type_filter": ACL_RESOURCES},
    "LeaderAndIsr": {"type": {0: "unknown", 1: "incremental", 2: "full"}},
    "UpdateMetadata": {"type": {0: "unknown", 1: "incremental", 2: "full"}},
    "ListOffsets": {"timestamp": OFFSET_QUERIES},
}
