"""The last step: a merged partial and the facts of the capture become a `Summary`."""

from kdissect import __version__
from kdissect.report.aggregate.merge import Partial
from kdissect.report.aggregate.partial_tables import FACTS
from kdissect.report.build import (
    data_quality,
    locations,
    profile,
)
from kdissect.report.build.connection_facts import connections, facts_of
from kdissect.report.build.rankings import Ranking
from kdissect.report.build.topic_table import Topics, topic_names
from kdissect.report.findings.finder import findings
from kdissect.report.findings.rule_input import (
    Scene,
    lags_of,
    notes_of,
)
from kdissect.report.model import (
    HISTOGRAM_EDGES_NS,
    SCHEMA_VERSION,
    By,
    CaptureFacts,
    Filter,
    Omitted,
    Summary,
)

MOST_ROWS = 10_000
"""Rows of any list; a capture can name millions of clients or topics, and the rest is counted as omitted."""

MOST_TOPIC_CLIENTS = 1_000


def build_report(
    partial: Partial, capture: CaptureFacts, *, by: By = By.API, filters: tuple[Filter, ...] = ()
) -> Summary:
    """Give the whole report: its profile ranked `by` what was asked for, of a partial that `filters` have narrowed."""
    facts, names = facts_of(partial.part(FACTS)), topic_names(partial)
    found, faults_left = locations.sightings(partial, facts, names, MOST_ROWS)
    ranking = Ranking(partial, facts)
    apis = ranking.apis(locations.first_places(found))
    clients, clients_left = ranking.clients(MOST_ROWS)
    brokers, brokers_left = ranking.servers(MOST_ROWS)
    api_names = {
        row.api_key: row.api_name
        for row in sorted(apis, key=lambda row: -1 if row.api_version is None else row.api_version)
        if row.api_key is not None and row.api_name is not None
    }
    topics, topics_left, topic_clients_left = Topics(partial, facts, names, api_names).rank(
        MOST_ROWS, MOST_TOPIC_CLIENTS
    )
    totals, seen = ranking.totals(), connections(facts)
    notes, notes_left = notes_of(partial, facts, names)
    scene = Scene(
        capture, facts, seen, totals, brokers, topics, ranking, notes, lags_of(partial, facts, names)
    )
    return Summary(
        schema_version=SCHEMA_VERSION,
        kdissect_version=__version__,
        histogram_edges_ns=HISTOGRAM_EDGES_NS,
        capture=capture,
        filters=filters,
        connections=seen,
        totals=totals,
        findings=findings(scene),
        profile=profile.profile(by, ranking, topics, brokers),
        apis=apis,
        clients=clients,
        brokers=brokers,
        topics=topics,
        errors=locations.errors(found),
        faults=locations.faults(found),
        doubts=data_quality.doubts(data_quality.Evidence(capture, seen, totals)),
        omitted=Omitted(
            clients=clients_left,
            brokers=brokers_left,
            topics=topics_left,
            topic_clients=topic_clients_left,
            faults=faults_left,
            notable=notes_left,
        ),
    )
