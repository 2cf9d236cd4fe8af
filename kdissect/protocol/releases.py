"""Which versions of an API the releases of Kafka from 4.0 on serve.

The schema files say what 4.3 serves (`live`). KIP-896 removed in 4.0 whatever clients older than Kafka 2.1 need; since then two
things changed: JoinGroup 0 and 1 came back in 4.1 (KAFKA-19444), and the first versions of the share-group APIs, which 4.0
had as early access, went away (KIP-932). The APIs by which ZooKeeper-based controllers led brokers (LeaderAndIsr, StopReplica,
UpdateMetadata, ControlledShutdown) are in none of them.
"""

from kdissect.protocol.schema.registry import APIS

RELEASES = ("4.0", "4.1", "4.2", "4.3")
JOIN_GROUP = 11
EARLY_ACCESS = frozenset((76, 77, 78, 79))
"""ShareGroupHeartbeat, ShareGroupDescribe, ShareFetch, ShareAcknowledge."""

ZOOKEEPER_ERA = frozenset((4, 5, 6, 7))


def serves(release: str, key: int, version: int) -> bool:
    """Tell whether a broker of this release answers a version that exists; of what nobody knows nothing is held against it."""
    api = APIS.get(key)
    if api is None or version not in api.versions:
        return True
    if release == RELEASES[0]:
        if key == JOIN_GROUP:
            return version >= 2
        if key in EARLY_ACCESS:
            return version == 0
    return version in api.live
