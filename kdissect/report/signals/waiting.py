"""Who waits in rows of WAITS: clients, and connections as far as rows still know theirs.

A capture with more rows of WAITS than the table keeps has the connections of the longest waits only. The
other rows still tell client, server, API and steps of time. So all requests are counted, and connections are
at least as many as are known.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kdissect.array_types import Bools, Int64s
from kdissect.report.aggregate.grouping import distinct_numbers
from kdissect.report.signals.named_rows import client_rows
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.timeline.signal_tables import WAITS
from kdissect.report.wording import counted

SEVERAL = 2


class Waiting(NamedTuple):
    """Who sent the requests of some rows of WAITS.

    `connections` are rows among the facts of connections, `unknown_requests` those of connections that are
    not known.
    """

    clients: tuple[str, ...]
    connections: Int64s
    requests: int
    unknown_requests: int

    @property
    def are_several(self) -> bool:
        """Return whether more than one connection waits. A table gives up connections if it has many."""
        return len(self.connections) >= SEVERAL or self.unknown_requests >= SEVERAL

    @property
    def measures(self) -> dict[str, int]:
        """Return the measures from which `waiting_text` is made."""
        unknown = {"unknown_requests": self.unknown_requests} if self.unknown_requests else {}
        return {"connections": len(self.connections), "requests": self.requests, **unknown}


def located_waits(context: SignalContext) -> Bools:
    """Return the mask of the rows of WAITS that tell when their requests waited, and of which connection.

    A row that gave up its connection is one of them. One whose connection is none of the report's is not.
    """
    waits = context.table(WAITS)
    known = (context.facts.rows(waits) >= 0) | ~waits.present("connection")
    return known & waits.present("begin_step")


def who_waits(context: SignalContext, rows: Int64s) -> Waiting:
    """Return who sent the requests of some rows of WAITS."""
    waits = context.table(WAITS)
    known = waits.present("connection")[rows]
    requests = waits.ints("exchanges")[rows]
    connections = distinct_numbers(context.facts.rows(waits)[rows[known]], len(context.facts.numbers))
    clients = context.clients_of(connections)
    if not known.all():
        others = client_rows(waits).only(rows[~known]).present()
        clients = tuple(sorted({*clients, *others}))
    return Waiting(clients, connections, int(requests.sum()), int(requests[~known].sum()))


def waiting_text(measures: Mapping[str, int]) -> str:
    """Return the requests that waited, and on how many connections as far as that is known."""
    requests, connections = counted(measures["requests"], "request"), measures["connections"]
    if not measures.get("unknown_requests"):
        return f"{requests} on {counted(connections, 'connection')}"
    return f"{requests} on at least {counted(connections, 'connection')}" if connections else requests
