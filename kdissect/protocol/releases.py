"""Which versions of an API the releases of Kafka from 4.0 on serve.

The schema files state what the last of `RELEASES` serves (`live`). Earlier releases differ from it in this:

- 4.0 removed the versions that only clients older than Kafka 2.1 need (KIP-896), JoinGroup 0 and 1 among
  them. These two came back in 4.1 (KAFKA-19444).
- 4.0 had version 0 of the share-group APIs as early access. 4.1 removed it (KIP-932).

No release from 4.0 on has the APIs by which ZooKeeper-based controllers led brokers. This module loads
nothing that takes time, as the command line names the releases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdissect.protocol.api_keys import SHARE_GROUPS, ApiKey

if TYPE_CHECKING:
    from kdissect.protocol.schema.definition import Api

RELEASES = ("4.0", "4.1", "4.2", "4.3", "4.4")
"""From the oldest to the one that the schema files describe."""


def serves(release: str, api: Api | None, version: int) -> bool:
    """Return whether a broker of this release serves a version. Unknown APIs and versions count as served."""
    if api is None or version not in api.versions:
        return True
    if release == RELEASES[0]:
        if api.key == ApiKey.JOIN_GROUP:
            return version >= 2
        if api.key in SHARE_GROUPS:
            return version == 0
    return version in api.live
