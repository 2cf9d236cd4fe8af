"""The last step: a merged partial and the facts of the capture become a `Summary`."""

from kdissect import __version__
from kdissect.report.aggregate.partial_tables import CONNECTION_FACTS
from kdissect.report.build import (
    data_quality,
    locations,
    profile,
)
from kdissect.report.build.topic_table import TopicTables, topic_names
from kdissect.report.findings.context import (
    FindingContext,
    find_consumer_lags,
    find_observations,
)
from kdissect.report.findings.finder import apply_rules
from kdissect.report.model.summary import (
    HISTOGRAM_EDGES_NS,
    SCHEMA_VERSION,
    AppliedFilter,
    CaptureFacts,
    Omitted,
    ProfileBy,
    Summary,
)
from kdissect.report.partials import Partial
from kdissect.report.query.call_table import CallTable
from kdissect.report.query.connection_facts import connection_totals, read_connection_facts

MOST_ROWS = 10_000
"""Rows of any list; a capture can name millions of clients or topics, and the rest is counted as omitted."""

MOST_TOPIC_CLIENTS = 1_000


def build_report(
    partial: Partial,
    capture: CaptureFacts,
    *,
    by: ProfileBy = ProfileBy.API,
    filters: tuple[AppliedFilter, ...] = (),
) -> Summary:
    """Give the whole report: its profile ranked `by` what was asked for, of a partial that `filters` have narrowed."""
    facts, names = read_connection_facts(partial.part(CONNECTION_FACTS)), topic_names(partial)
    found, faults_left = locations.first_seen_rows(partial, facts, names, MOST_ROWS)
    ranking = CallTable(partial, facts)
    apis = ranking.apis(locations.first_locations(found))
    clients, clients_left = ranking.clients(MOST_ROWS)
    brokers, brokers_left = ranking.servers(MOST_ROWS)
    api_names = {
        row.api_key: row.api_name
        for row in sorted(apis, key=lambda row: -1 if row.api_version is None else row.api_version)
        if row.api_key is not None and row.api_name is not None
    }
    topics, topics_left, topic_clients_left = TopicTables(partial, facts, names, api_names).rank(
        MOST_ROWS, MOST_TOPIC_CLIENTS
    )
    totals, seen = ranking.totals(), connection_totals(facts)
    notes, notes_left = find_observations(partial, facts, names)
    scene = FindingContext(
        capture,
        facts,
        seen,
        totals,
        brokers,
        topics,
        ranking,
        notes,
        find_consumer_lags(partial, facts, names),
    )
    return Summary(
        schema_version=SCHEMA_VERSION,
        kdissect_version=__version__,
        histogram_edges_ns=HISTOGRAM_EDGES_NS,
        capture=capture,
        filters=filters,
        connections=seen,
        totals=totals,
        findings=apply_rules(scene),
        profile=profile.rank_profile(by, ranking, topics, brokers),
        apis=apis,
        clients=clients,
        brokers=brokers,
        topics=topics,
        errors=locations.error_rows(found),
        faults=locations.fault_rows(found),
        doubts=data_quality.quality_counters(data_quality.QualityInput(capture, seen, totals)),
        omitted=Omitted(
            clients=clients_left,
            brokers=brokers_left,
            topics=topics_left,
            topic_clients=topic_clients_left,
            faults=faults_left,
            notable=notes_left,
        ),
    )
