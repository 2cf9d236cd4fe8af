"""Causes of connections that servers close by themselves.

connection_limit      a host has as many connections as servers allow it
backend_missing       an address accepts connections, and no server is behind it
request_size_limit    a request is larger than servers take
"""

from kdissect.report.incidents.cause import Case, Diagnosis
from kdissect.report.model.incidents import Subject, SubjectKind
from kdissect.report.wording import capitalized, counted, known_as, listed
from kdissect.text import format_clock, format_size


def connection_limit(case: Case) -> Diagnosis | None:
    """Servers close new connections of one host before they answer anything, and serve others."""
    closed = case.anchor
    if not closed.measures["serving"]:
        return None
    host = closed.subject.name
    return Diagnosis(
        closed.subject,
        closed.begin_ns,
        closed.end_ns,
        f"Host {host} is refused new connections since {format_clock(closed.begin_ns)}: "
        f"{counted(closed.measures['servers'], 'server')} closed "
        f"{counted(closed.measures['connections'], 'connection')} of it before any response, as they "
        "do with more than max.connections.per.ip",
        0.85,
        (closed,),
        speaks_for=("servers closed them, within a second, and before any response",),
        speaks_against=("a server also closes at once what it can make nothing of",),
    )


def backend_missing(case: Case) -> Diagnosis | None:
    """An address accepts connections and closes each at once, and answers nobody, or nobody any more."""
    closed = case.anchor
    if closed.measures["serving"]:
        return None
    before, span = (
        (" or before", "in the whole capture") if not closed.measures["served"] else ("", "since then")
    )
    address = listed(closed.servers, 3)
    clients = listed([*map(known_as, closed.clients)], 3)
    return Diagnosis(
        Subject(kind=SubjectKind.SERVER, name=closed.servers[0]),
        closed.begin_ns,
        closed.end_ns,
        f"{capitalized(address)} accepts connections and closes them at once, since "
        f"{format_clock(closed.begin_ns)}{before}: {counted(closed.measures['connections'], 'connection')} "
        f"of {clients} ended before any byte of a response, as if no broker were behind that address",
        0.85,
        (closed,),
        speaks_for=(f"nobody got a response from there {span}",),
        speaks_against=("a broker also closes at once what it can make nothing of",),
    )


def request_size_limit(case: Case) -> Diagnosis | None:
    """Servers close connections of one client whenever it sends a large request."""
    closed = case.anchor
    servers = [name for name in closed.servers if name != closed.subject.name]
    return Diagnosis(
        closed.subject,
        closed.begin_ns,
        closed.end_ns,
        f"{closed.subject.name} sends requests that are too large since {format_clock(closed.begin_ns)}: "
        f"{listed(servers, 3)} closed {counted(closed.measures['connections'], 'connection')} of it without "
        f"an answer after {format_size(closed.measures['smallest_bytes'])} or more of a request",
        0.8,
        (closed,),
        speaks_for=("smaller requests are answered", "the server keeps its other connections"),
        speaks_against=("the capture does not show the limit of the server",),
    )
