"""Rails that keep a replay away from where it must not go: checked before and after anything connects.

An address may be connected to if its host is that of `--target`, or is allowed by name or network, and if the
capture never shows a broker there: a cluster restored from a copy may advertise the addresses of the
original. It is checked three times: as the target names it, when the system has resolved it, and when the
connection is made. Addresses are compared, not their spellings: all addresses of a name count, and all
addresses of this machine are one. The cluster must not have the id of the captured one. If the capture does
not tell that id, the user must name the cluster (`--i-know-target`). The operator's credentials leave this
machine over TLS only.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping

from kdissect.errors import UserError
from kdissect.replay.addresses import IpAddress, host_name, ip_of, is_loopback, network_of
from kdissect.replay.load.captured_cluster import CapturedCluster
from kdissect.replay.settings import Address, ReplaySettings
from kdissect.text import format_address

MOST_HOSTS = 1000  # names of captured brokers: no cluster has more


class AbortRun(UserError):
    """A safety rule forbids the run, or the target cannot be asked.

    The message is one sentence for the user.
    """


class Admission:
    """Which addresses may be connected to. Each check raises AbortRun for one that may not.

    `resolved` has the addresses of captured hosts, as far as the system knows them. `is_own` returns whether
    an address belongs to this machine.
    """

    def __init__(
        self,
        settings: ReplaySettings,
        source: CapturedCluster,
        resolved: Mapping[str, Collection[IpAddress]] | None = None,
        is_own: Callable[[IpAddress], bool] = lambda _address: False,
    ) -> None:
        self._settings, self._is_own = settings, is_own
        self._captured_names = {(host_name(host), port) for host, port in source.addresses}
        self._captured: defaultdict[int, set[IpAddress]] = defaultdict(set)  # addresses by port
        for host, port in source.addresses:
            address = ip_of(host)
            self._captured[port] |= {address} if address else set((resolved or {}).get(host, ()))
        allowed = (*(host for host, _ in settings.target), *settings.allowed_hosts)
        networks = [(host, network_of(host)) for host in allowed]
        self._networks = [network for _, network in networks if network is not None]
        self._names = {host_name(host) for host, network in networks if network is None}
        self._loopback = any(is_loopback(host) for host, _ in settings.target)
        self._routes: dict[str, frozenset[IpAddress]] = {}  # what allowed names were resolved to

    def admit(self, address: Address) -> None:
        """Check an address as it is spelled: before it is resolved, and when the target names it."""
        host, port = address
        spelled = ip_of(host)
        if (host_name(host), port) in self._captured_names or (is_loopback(host) and self._shows_here(port)):
            raise _refusal(address)
        if spelled is not None:
            self._refuse_captured(address, (spelled,))
        if not self._allowed(host, spelled):
            raise AbortRun(
                f"the target names {format_address(host, port)}, which is not allowed (--allow-host {host})"
            )

    def admit_resolved(self, address: Address, found: Iterable[IpAddress]) -> None:
        """Check all addresses of a host, before anything connects to one of them."""
        found = frozenset(found)
        self._refuse_captured(address, found)
        self._routes[address[0]] = found

    def admit_peer(self, address: Address, peer: IpAddress) -> None:
        """Check where a connection to an address has led, before anything is sent on it."""
        self._refuse_captured(address, (peer,))
        if peer not in self._routes.get(address[0], ()) and not self._allowed("", peer):
            raise AbortRun(
                f"the connection to {format_address(*address)} led to {peer}, which is not allowed"
            )
        settings = self._settings
        if settings.credentials and not (settings.tls or settings.plaintext_credentials or is_loopback(peer)):
            raise AbortRun(no_plaintext(address))

    def _refuse_captured(self, address: Address, found: Iterable[IpAddress]) -> None:
        captured = self._captured.get(address[1], ())
        for each in found:
            if each in captured or (self._is_here(each) and self._shows_here(address[1])):
                raise _refusal(address, each)

    def _shows_here(self, port: int) -> bool:
        """Return whether the capture shows a broker at an address of this machine."""
        return any(map(self._is_here, self._captured.get(port, ()))) or any(
            is_loopback(name) for name, its_port in self._captured_names if its_port == port
        )

    def _is_here(self, address: IpAddress) -> bool:
        return is_loopback(address) or self._is_own(address)

    def _allowed(self, host: str, spelled: IpAddress | None) -> bool:
        if spelled is None:
            return host_name(host) in self._names or (self._loopback and is_loopback(host))
        return (
            (self._loopback and is_loopback(spelled))
            or any(spelled in network for network in self._networks)
            or any(spelled in found for found in self._routes.values())
        )


def _refusal(address: Address, resolved: IpAddress | None = None) -> AbortRun:
    spelled = format_address(*address)
    if resolved is not None and resolved != ip_of(address[0]):
        spelled += f" ({resolved})"
    return AbortRun(f"{spelled} is a broker of the captured cluster: nothing is sent there")


def no_plaintext(address: Address) -> str:
    """Return why the operator's credentials are not sent to an address."""
    return (
        f"the password would go to {format_address(*address)} unencrypted: use --tls, or "
        "--plaintext-credentials if nobody else can read the network"
    )


def captured_hosts(source: CapturedCluster) -> set[str]:
    """Return the names of captured brokers, to be resolved. Raise AbortRun if no cluster has that many."""
    hosts = {host for host, _ in source.addresses if host and ip_of(host) is None}
    if len(hosts) > MOST_HOSTS:
        raise AbortRun(
            f"the capture names {len(hosts):,} brokers by name, which is more than any cluster has: "
            "the target cannot be told from them"
        )
    return hosts


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
