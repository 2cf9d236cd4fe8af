"""The records of a cluster's metadata log, as far as their headers go (KIP-631).

Controllers fetch records from each other, from the log or as a snapshot. The value of a record begins with
three unsigned varints: the version of this frame, the type of the record, and its version. The rest is
internal to brokers and not decoded; some of it is secret.
"""

from typing import NamedTuple

from kdissect.protocol.codec.wire import DecodeError, read_uvarint

TOPIC = "__cluster_metadata"
TOPIC_ID = bytes(15) + b"\1"  # in every cluster (KIP-595, KIP-516)

RECORD_TYPES = {
    0: "RegisterBrokerRecord",
    1: "UnregisterBrokerRecord",
    2: "TopicRecord",
    3: "PartitionRecord",
    4: "ConfigRecord",
    5: "PartitionChangeRecord",
    7: "FenceBrokerRecord",
    8: "UnfenceBrokerRecord",
    9: "RemoveTopicRecord",
    10: "DelegationTokenRecord",
    11: "UserScramCredentialRecord",
    12: "FeatureLevelRecord",
    14: "ClientQuotaRecord",
    15: "ProducerIdsRecord",
    17: "BrokerRegistrationChangeRecord",
    18: "AccessControlEntryRecord",
    19: "RemoveAccessControlEntryRecord",
    20: "NoOpRecord",
    21: "ZkMigrationStateRecord",
    22: "RemoveUserScramCredentialRecord",
    23: "BeginTransactionRecord",
    24: "EndTransactionRecord",
    25: "AbortTransactionRecord",
    26: "RemoveDelegationTokenRecord",
    27: "RegisterControllerRecord",
    28: "ClearElrRecord",
    29: "UnregisterControllerRecord",
}
SECRETIVE = (4, 10, 11)  # settings, HMACs of tokens, salted passwords


class MetadataHeader(NamedTuple):
    """Header before the body of a metadata record."""

    frame_version: int
    type: int
    version: int

    @property
    def secretive(self) -> bool:
        """Return whether the body may hold a secret: the three known types, and all that nobody knows."""
        return self.type in SECRETIVE or self.type not in RECORD_TYPES


def metadata_header(value: bytes) -> MetadataHeader | None:
    """Return the header of a metadata record's value; None if the value ends inside it."""
    try:
        frame_version, offset = read_uvarint(value, 0, len(value))
        kind, offset = read_uvarint(value, offset, len(value))
        version, _ = read_uvarint(value, offset, len(value))
    except DecodeError:
        return None
    return MetadataHeader(frame_version, kind, version)
