"""What keeps a replay away from where it must not go: checked before and after anything connects.

An address may be connected to if its host is that of `--target`, or is allowed by name or network, and if the
capture never shows a broker there: a cluster restored from a copy may advertise the addresses of the
original. The cluster must not have the id of the captured one. If the capture does not tell that id, the user
must name the cluster (`--i-know-target`).
"""

import ipaddress
from collections.abc import Callable

from kdissect.errors import UserError
from kdissect.replay.load.captured_cluster import CapturedCluster
from kdissect.replay.settings import Address, ReplaySettings
from kdissect.text import LOOPBACK_HOSTS


class AbortRun(UserError):
    """A safety rule forbids the run, or the target cannot be asked.

    The message is one sentence for the user.
    """


def admission(settings: ReplaySettings, source: CapturedCluster) -> Callable[[Address], None]:
    """Return the check of addresses that the target names: it raises AbortRun for one that is not allowed."""

    def admit(address: Address) -> None:
        refuse_source(address, source)
        host, port = address
        if not _allowed(host, settings):
            raise AbortRun(f"the target names {host}:{port}, which is not allowed (--allow-host {host})")

    return admit


def refuse_source(address: Address, source: CapturedCluster) -> None:
    """Raise AbortRun for an address at which the capture shows a broker, even if a name led to it."""
    if _same(address, source.addresses):
        raise AbortRun(
            f"{address[0]}:{address[1]} is a broker of the captured cluster: nothing is sent there"
        )


def _same(address: Address, seen: set[Address]) -> bool:
    if address in seen:
        return True
    return address[0] in LOOPBACK_HOSTS and any((host, address[1]) in seen for host in LOOPBACK_HOSTS)


def _allowed(host: str, settings: ReplaySettings) -> bool:
    ours = {name for name, _ in settings.target}
    if host in ours or (host in LOOPBACK_HOSTS and ours & LOOPBACK_HOSTS):
        return True
    return any(host == allowed or _within(host, allowed) for allowed in settings.allowed_hosts)


def _within(host: str, network: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def check_cluster(settings: ReplaySettings, source: CapturedCluster, cluster_id: str | None) -> None:
    """Raise AbortRun unless the target is known to be another cluster than the captured one."""
    if cluster_id is not None and cluster_id in source.cluster_ids:
        raise AbortRun(f"the target is the captured cluster itself (cluster id {cluster_id})")
    if settings.known_target is not None and settings.known_target != cluster_id:
        raise AbortRun(f"the target's cluster id is {cluster_id}, not {settings.known_target}")
    if not source.cluster_ids and settings.known_target is None:
        raise AbortRun(
            "the capture does not tell the id of its cluster, so it cannot be told from the target: "
            f"if it is another one, say so with --i-know-target {cluster_id}"
        )
