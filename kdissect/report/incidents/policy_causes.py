"""Causes that are a policy of servers: a limit of connections for each address."""

from kdissect.report.incidents.cause import Case, Diagnosis
from kdissect.report.wording import counted
from kdissect.text import format_clock


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
        f"{counted(closed.measures['connections'], 'connection')} of it before any response, as beyond a "
        "limit",
        0.85,
        (closed,),
        speaks_for=("servers closed them, within a second, and before any response",),
        speaks_against=("a server also closes at once what it can make nothing of",),
    )
