"""Causes that are a policy of servers: limits of connections for an address, and of the size of requests."""

from kdissect.report.incidents.cause import Case, Diagnosis
from kdissect.report.wording import counted, listed
from kdissect.text import format_clock, format_size


def connection_limit(case: Case) -> Diagnosis | None:
    """Servers close new connections of one host before they answer anything."""
    closed = case.anchor
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
