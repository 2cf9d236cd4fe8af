"""From a merged partial and the facts of the capture to a `Summary`."""

from collections.abc import Iterable

from kdissect import __version__
from kdissect.memory import collector_paused
from kdissect.report.aggregate.partial_tables import BROKERS
from kdissect.report.build.connection_totals import connection_totals
from kdissect.report.build.data_quality import QualityInput, quality_counters
from kdissect.report.build.locations import (
    error_rows,
    fault_rows,
    first_locations,
    first_seen_rows,
)
from kdissect.report.build.profile import rank_profile
from kdissect.report.build.rankings import rank_apis, rank_brokers, rank_clients
from kdissect.report.build.topic_table import TopicTables
from kdissect.report.findings.finder import apply_rules
from kdissect.report.findings.finding_context import FindingContext
from kdissect.report.findings.observations import find_consumer_lags, find_observations
from kdissect.report.incidents.join import find_incidents, mark_explained
from kdissect.report.model.call_figures import HISTOGRAM_EDGES_NS
from kdissect.report.model.findings import Finding
from kdissect.report.model.incidents import Incident, Signal
from kdissect.report.model.summary import (
    SCHEMA_VERSION,
    ApiRow,
    AppliedFilter,
    CaptureFacts,
    Omitted,
    ProfileBy,
    Summary,
)
from kdissect.report.partials import Partial
from kdissect.report.query.call_table import CallTable
from kdissect.report.query.connection_facts import read_connection_facts
from kdissect.report.query.steady_pace import SteadyPace
from kdissect.report.query.topic_names import TopicNames
from kdissect.report.signals.client_names import ClientFacts
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.signals.sources import find_signals
from kdissect.report.timeline.signal_tables import PACE
from kdissect.text import dated_clocks, spans_midnight

MAX_ROWS = 10_000
"""Rows of any list; a capture can name millions of clients or topics, and the rest is counted as omitted."""

MAX_TOPIC_CLIENTS = 1_000


@collector_paused()
def build_report(
    partial: Partial,
    capture: CaptureFacts,
    *,
    by: ProfileBy = ProfileBy.API,
    filters: tuple[AppliedFilter, ...] = (),
) -> Summary:
    """Return the whole report; its profile ranks `by`, and `filters` are those that narrowed the partial."""
    facts, topic_names = read_connection_facts(partial), TopicNames(partial)
    calls = CallTable(partial, facts)
    first_seen = first_seen_rows(partial, facts, topic_names, MAX_ROWS)
    apis = rank_apis(calls, first_locations(first_seen.rows))
    clients = rank_clients(calls, MAX_ROWS)
    brokers = rank_brokers(calls, partial.columns(BROKERS).dicts(), MAX_ROWS)
    topics, topic_clients_omitted = TopicTables(partial, facts, topic_names, _api_names(apis)).rank(
        MAX_ROWS, MAX_TOPIC_CLIENTS
    )
    totals, connections = calls.totals(), connection_totals(facts)
    observations, notable_omitted = find_observations(partial, facts, topic_names)
    context = FindingContext(
        capture=capture,
        facts=facts,
        connections=connections,
        totals=totals,
        topics=topics.rows,
        calls=calls,
        observations=observations,
        lags=find_consumer_lags(partial, facts, topic_names),
        pace=SteadyPace(partial.columns(PACE)) if PACE.name in partial.tables else None,
    )
    findings, incidents, signals = _name_causes(partial, context, topic_names)
    return Summary(
        schema_version=SCHEMA_VERSION,
        kdissect_version=__version__,
        histogram_edges_ns=HISTOGRAM_EDGES_NS,
        capture=capture,
        filters=filters,
        connections=connections,
        totals=totals,
        findings=findings,
        incidents=incidents,
        signals=signals,
        profile=rank_profile(by, calls, topics.rows, brokers.rows),
        apis=apis,
        clients=clients.rows,
        brokers=brokers.rows,
        topics=topics.rows,
        errors=error_rows(first_seen.rows),
        faults=fault_rows(first_seen.rows),
        doubts=quality_counters(QualityInput(capture, connections, totals)),
        omitted=Omitted(
            clients=clients.omitted,
            brokers=brokers.omitted,
            topics=topics.omitted,
            topic_clients=topic_clients_omitted,
            faults=first_seen.omitted,
            notable=notable_omitted,
        ),
    )


def _name_causes(
    partial: Partial, context: FindingContext, topics: TopicNames
) -> tuple[tuple[Finding, ...], tuple[Incident, ...], tuple[Signal, ...]]:
    """Return findings, incidents and signals; each finding and signal knows the incident that explains it."""
    findings = apply_rules(context)
    source = SignalContext(partial, context, findings, topics)
    span = source.begin_ns, source.end_ns
    with dated_clocks(spans_midnight(*span)):
        incidents, signals = find_incidents(
            find_signals(source), span, context.totals.exchanges, nodes=source.shared(ClientFacts).nodes
        )
    return mark_explained(findings, signals), incidents, signals


def _api_names(apis: Iterable[ApiRow]) -> dict[int, str]:
    """Return the name of each API key; the name at a version counts more than one without."""
    rows = sorted(apis, key=lambda row: -1 if row.api_version is None else row.api_version)
    return {row.api_key: row.api_name for row in rows if row.api_key is not None and row.api_name is not None}
