"""Captured requests in time order, with their answers: what a replay starts from.

The capture is read twice, as by a dump: once for the names of topic ids, once for the exchanges. Frames go to
a spool, and of a request a row stays in memory (see `request_table`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from kdissect.capture.formats.file_types import InputError
from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.errors import UsageError
from kdissect.exchanges.filter import ExchangeFilter
from kdissect.exchanges.prescan import prescan_capture
from kdissect.exchanges.reader import ExchangeReader
from kdissect.replay.load.logged_shapes import LoggedShapes
from kdissect.replay.load.request_table import Request, RequestTable
from kdissect.replay.load.selection import RequestSelection
from kdissect.replay.load.spool import Spool
from kdissect.replay.settings import everything
from kdissect.streams.tls.keylog import keys_for
from kdissect.text import parse_address

SPLIT_BYTES = 4 << 20
PROGRESS_STEP = 1000  # requests


@dataclass(slots=True)
class Capture:
    """All requests of some captures. `names` are those of topic ids."""

    files: tuple[str, ...]
    names: dict[bytes, str]
    warnings: list[str]
    earliest_ns: int
    latest_ns: int
    requests: Sequence[Request] = ()
    orphans: int = 0
    servers: set[str] = field(default_factory=set)
    headless: set[int] = field(default_factory=set)  # connections without their beginning
    clients: dict[int, str] = field(default_factory=dict)  # connection -> its client's address
    logged: LoggedShapes | None = None  # of a log, if no filter excludes a request
    unmatched: str = ""  # which filter matches nothing, in a sentence

    def selected_keys(self) -> set[int]:
        """Return the API keys of the requests that no option excludes."""
        if isinstance(self.requests, RequestTable):
            return self.requests.selected_keys()
        return {request.key for request in self.requests if not request.excluded_by}

    def client_host(self, connection: int) -> str:
        """Return the host of a connection's client; "" if the capture does not tell."""
        return _host(self.clients.get(connection, ""))


@lru_cache(1 << 12)
def _host(address: str) -> str:
    return parse_address(address)[0]


def read(
    paths: Sequence[str],
    ports: Sequence[int],
    scratch: str,
    spool: Spool,
    keylog: str | None = None,
    wanted: Callable[[int], ExchangeFilter] = everything,
    topic_names: Mapping[bytes, str] | None = None,
    progress: Callable[[int], None] = lambda _requests: None,
) -> Capture:
    """Return all requests of some captures, in time order, each marked with the filter that excludes it.

    `scratch` is a directory for unpacked captures, `spool` takes the frames. `keylog` names a file with TLS
    secrets, `wanted` makes the filters from the time at which the capture starts, and `topic_names` has names
    for topic ids that the capture does not name. Raise InputError for what is not a capture.
    """
    inputs = open_inputs(list(paths), scratch)
    index = index_captures(inputs.files, SPLIT_BYTES)
    keys = keys_for(keylog, index.files)
    prescan = prescan_capture(index.splits, ports, keys)
    requests = RequestTable()
    capture = Capture(
        requests=requests,
        files=tuple(file.file.name for file in index.files),
        names=dict(topic_names or {}) | prescan.names,  # what was captured is true
        warnings=[*(f"passed over {reason}" for reason in inputs.skipped), *index.warnings],
        earliest_ns=index.earliest_time_ns or 0,
        latest_ns=index.latest_time_ns or 0,
    )
    reader = ExchangeReader(index.splits, ports, prescan, keys)
    selection = RequestSelection(wanted(capture.earliest_ns), capture.names)
    for request in _requests(reader, selection, capture, spool):
        requests.append(request)
        if request.index % PROGRESS_STEP == PROGRESS_STEP - 1:
            progress(request.index + 1)
    capture.unmatched = selection.unmatched(capture.earliest_ns, capture.latest_ns)
    refuse_unread_tls(capture, reader.unread_tls(capture.clients))
    return capture


def refuse_unmatched(capture: Capture) -> None:
    """Raise UsageError if a filter matches nothing."""
    if capture.unmatched:
        raise UsageError(capture.unmatched)


def refuse_unread_tls(capture: Capture, unread: int) -> None:
    """Warn of connections whose TLS could not be read. Raise InputError if nothing else is in the capture."""
    if not unread:
        return
    connections = f"{unread} TLS connection{'s' if unread > 1 else ''}"
    if not capture.requests:
        raise InputError(
            f"no request can be read: {connections} cannot be decrypted; --keylog FILE takes the secrets"
        )
    capture.warnings.append(f"{connections} cannot be decrypted (--keylog FILE takes the secrets)")


def _requests(
    reader: ExchangeReader, selection: RequestSelection, capture: Capture, spool: Spool
) -> Iterator[Request]:
    index, known = 0, dict[str, str]()  # addresses, each kept once
    for each in reader.exchanges(selection.rows):
        if each.is_token:  # who logs in to the target does so with its own credentials
            continue
        if each.request is None or each.api_key is None:
            capture.orphans += 1
            continue
        connection = reader.identity(each.connection)
        client, server = reader.addresses(each.connection)
        server = known.setdefault(server, server)
        capture.servers.add(server)
        if connection not in capture.clients:
            capture.clients[connection] = client
            if each.ordinal != 0 or not reader.has_beginning(each.connection):
                capture.headless.add(connection)
        response = each.response
        yield Request(
            index=index,
            connection=connection,
            ordinal=each.ordinal or 0,
            server=server,
            key=each.api_key,
            version=each.api_version,
            status=each.status,
            first_ns=each.request.first_ns,
            last_ns=each.request.last_ns,
            answered_ns=response.first_ns if response else None,
            in_flight=each.in_flight or 1,
            complete=len(each.request.data) == each.request.size,
            frame=spool.put(each.request.data),
            response=spool.put(response.data) if response else None,
            response_complete=response is not None and len(response.data) == response.size,
            excluded_by=selection.excluded(each),
        )
        index += 1
