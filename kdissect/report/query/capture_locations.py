"""Locations in the capture: rows of a partial as `Location`s with addresses, clients and topics."""

from collections.abc import Sequence

from kdissect.report.aggregate.grouping import TableColumns, iterate_rows
from kdissect.report.model.findings import Location
from kdissect.report.query.connection_facts import ConnectionFacts
from kdissect.report.query.topic_names import TopicNames

ADDRESS = ("client_host", "client_port", "server_host", "server_port")
OWN = ("capture_file", "request_packet", "response_packet", "connection", "partition")


def capture_locations(
    columns: TableColumns, times_ns: Sequence[int | None], facts: ConnectionFacts, topics: TopicNames
) -> list[Location]:
    """Return the location of each row, which has the columns `OWN`, a client id and a topic.

    It may also have a detail, and the times of the two packets.
    """
    rows = facts.rows(columns)
    client_ids = facts.client_ids(columns.arrow("client_id"), rows).to_pylist()
    addresses = zip(*(facts.column_at(name, rows).to_pylist() for name in ADDRESS), strict=True)
    return [
        Location(
            time_ns=time_ns,
            client_id=client_id,
            topic=topics.name(row["topic"], row["topic_id"]),
            detail=row.get("detail"),
            request_time_ns=row.get("request_first_ns"),
            response_time_ns=row.get("response_first_ns"),
            **{name: row[name] for name in OWN},
            **dict(zip(ADDRESS, address, strict=True)),
        )
        for row, time_ns, client_id, address in zip(
            iterate_rows(columns.table), times_ns, client_ids, addresses, strict=True
        )
    ]
