"""Signals about clients that are refused for a reason that the error names.

    credentials_refused     SASL authentication failed
    mechanism_refused       the broker does not offer the SASL mechanism of the client
    login_out_of_turn       a SASL request came when the broker takes none
    right_missing           not authorized for a topic, a group, a transactional id or the cluster
    records_oversized       batches are larger than the topic takes
    records_damaged         batches have checksums that do not fit when they arrive
    commits_refused         a client commits for a group that it is no member of
    timestamps_refused      records carry a time that the topic does not take
    topic_missing           a topic that is not there is asked for again and again
    offsets_gone            a consumer asks for offsets that the log does not have any more
    protocol_refused        a member knows no assignor that its group has
    group_kind_refused      a member wants a group of another kind than the one that has its id
    settings_refused        a client has a name or a setting that no broker takes
    quota_applied           a broker makes a client wait

One signal is one client, one kind and one spell, over all topics and groups that it names.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from kdissect.protocol.api_keys import EPOCH_HEARTBEATS, OFFSET_COMMITS, SUBSCRIPTIONS, ApiKey
from kdissect.protocol.error_codes import (
    AUTHENTICATION_ERRORS,
    AUTHORIZATION_ERRORS,
    CLIENT_SETTING_REFUSED,
    OVERSIZED,
    TOPIC_SETTING_REFUSED,
    ErrorCode,
)
from kdissect.report.findings.evidence import count_exchanges, count_requests, observed, spells
from kdissect.report.findings.observations import Observation
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.client_names import ClientFacts
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.login_signals import identities
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.timeline.signal_tables import READS
from kdissect.report.wording import counted, listed
from kdissect.tables.anonymize import OWN_TOPICS
from kdissect.text import format_clock, format_count, format_duration

SECOND, NS_PER_MS = 10**9, 10**6
APART_NS = 30 * SECOND
"""Clients back off for up to this long between two attempts of one spell."""

NAMED = 3
MADE_BY_STREAMS = ("-changelog", "-repartition")
"""Ends of the names of topics that Kafka Streams makes by itself: nobody misspells them."""

SIMILAR = 0.75
"""How similar (`difflib`, 0 to 1) two names of topics are if one was meant to be the other."""


class RefusalRule(NamedTuple):
    """One kind of refusal: its codes, what is refused, and how many times over how long make a signal."""

    kind: str
    words: str
    codes: frozenset[int]
    least: int = 1
    lasted_ns: int = 0
    apis: frozenset[int] = frozenset()
    """The only APIs whose errors count; all if empty."""

    def is_reached(self, spell: Sequence[Observation]) -> bool:
        """Return whether a spell comes often enough and lasts long enough."""
        lasted = max(row.last_ns for row in spell) - spell[0].first_ns
        return count_requests(spell) >= self.least and lasted >= self.lasted_ns


REFUSALS = (
    RefusalRule(
        "credentials_refused",
        "failed to authenticate",
        AUTHENTICATION_ERRORS - {ErrorCode.UNSUPPORTED_SASL_MECHANISM},
    ),
    RefusalRule(
        "mechanism_refused",
        "wants to log in by a mechanism that the broker does not offer",
        frozenset({ErrorCode.UNSUPPORTED_SASL_MECHANISM}),
    ),
    RefusalRule(
        "login_out_of_turn",
        "logs in when the broker takes no login",
        frozenset({ErrorCode.ILLEGAL_SASL_STATE}),
        2,
    ),
    RefusalRule("right_missing", "was not authorized", AUTHORIZATION_ERRORS),
    RefusalRule("records_oversized", "sent records that are too large", OVERSIZED),
    RefusalRule(
        "records_damaged",
        "sends records that arrive damaged",
        frozenset({ErrorCode.CORRUPT_MESSAGE}),
        3,
        SECOND,
        apis=frozenset({ApiKey.PRODUCE}),
    ),
    RefusalRule(
        "commits_refused",
        "commits for a group that it is no member of",
        frozenset({ErrorCode.UNKNOWN_MEMBER_ID}),
        3,
        SECOND,
        apis=OFFSET_COMMITS,
    ),
    RefusalRule(
        "timestamps_refused",
        "sent records with timestamps out of range",
        frozenset({ErrorCode.INVALID_TIMESTAMP}),
        2,
    ),
    RefusalRule(
        "topic_missing",
        "asked for a topic that is not there",
        frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}),
        4,
        3 * SECOND,
    ),
    RefusalRule(
        "offsets_gone", "asked for offsets that are gone", frozenset({ErrorCode.OFFSET_OUT_OF_RANGE})
    ),
    RefusalRule(
        "protocol_refused",
        "cannot join its group, which uses other assignors",
        frozenset({ErrorCode.INCONSISTENT_GROUP_PROTOCOL}),
        2,
    ),
    RefusalRule(
        "group_kind_refused",
        "cannot join a group of another kind that has its group id",
        frozenset({ErrorCode.GROUP_ID_NOT_FOUND}),
        2,
        apis=EPOCH_HEARTBEATS,  # they make the group that they name, so it is there, as another kind
    ),
    RefusalRule("settings_refused", "asked for what no broker allows", CLIENT_SETTING_REFUSED, 2),
    RefusalRule("settings_refused", "asked for what no broker allows", TOPIC_SETTING_REFUSED, 3, SECOND),
)
REFUSAL_KINDS = (
    *(
        SignalKind(kind, f"a client {words}", SignalCounts.ERRORS)
        for kind, words in dict.fromkeys((refusal.kind, refusal.words) for refusal in REFUSALS)
    ),
    SignalKind("quota_applied", "a broker makes a client wait by a quota", SignalCounts.WAITS),
)

ALLOWED = {
    ErrorCode.INVALID_TOPIC_EXCEPTION: "names of topics have letters, digits, '.', '_' and '-', 249 at most",
    ErrorCode.INVALID_REQUIRED_ACKS: "acks may be 0, 1 or all",
    ErrorCode.INVALID_GROUP_ID: "group.id may not be empty",
    ErrorCode.INVALID_SESSION_TIMEOUT: "group.min.session.timeout.ms and group.max.session.timeout.ms of the "
    "broker bound session.timeout.ms",
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE: "offset.metadata.max.bytes of the broker bounds it",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "transaction.max.timeout.ms of the broker bounds "
    "transaction.timeout.ms",
    ErrorCode.UNSUPPORTED_ASSIGNOR: "group.consumer.assignors of the broker has the assignors",
    ErrorCode.INVALID_REPLICATION_FACTOR: "a topic may have as many replicas as brokers are alive",
    ErrorCode.INVALID_PARTITIONS: "a topic has a partition at least, and never gets fewer",
    ErrorCode.POLICY_VIOLATION: "create.topic.policy.class.name or alter.config.policy.class.name of the "
    "broker forbids it",
    ErrorCode.INVALID_REGULAR_EXPRESSION: "the broker takes patterns of RE2/J",
}
"""The bounds of brokers that explain a refusal of a setting."""

OF_IDENTITY = ("credentials_refused", "mechanism_refused", "login_out_of_turn", "right_missing")
"""Refusals that depend on who the client is."""

NAMED_BY_API = ("right_missing", "settings_refused")
"""Refusals of which the API tells what was wanted, where no topic or group does."""

GIVEN_UP, GIVEN_UP_NS = 3, 3 * SECOND
"""So many look-ups of a topic that is not there so long before the capture ends were in vain."""

THROTTLED_MS, THROTTLES, LONG_THROTTLED_MS = 500, 3, 5_000
"""A quota that made a client wait for less, and fewer times, is none of the reader's business.

A few long waits count as well."""


def refusal_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield the signals about refusals and quotas."""
    facts = context.shared(ClientFacts)
    errors = [error for error in context.rules.of_kind("error") if error.replica_id is None]
    for refusal in REFUSALS:
        rows = [error for error in errors if error.code in refusal.codes]
        if refusal.apis:
            rows = [error for error in rows if error.api_key in refusal.apis]
        if refusal.kind == "topic_missing":
            rows = [error for error in rows if error.location.topic is not None]
        for client, spell in _spells(rows):
            if refusal.kind == "commits_refused" and _is_member(facts, client, spell):
                continue  # the group went on without it, which has causes of its own
            if refusal.is_reached(spell) or (refusal.kind == "topic_missing" and _given_up(context, spell)):
                yield _refused(context, facts, refusal, client, spell)
    for client, spell in _spells(context.rules.of_kind("throttled")):
        waited_ms = sum(row.amount for row in spell)
        often = waited_ms >= THROTTLED_MS and count_exchanges(spell) >= THROTTLES
        if often or waited_ms >= LONG_THROTTLED_MS:
            yield _throttled(context, client, spell, waited_ms)


def _is_member(facts: ClientFacts, client: str, spell: Sequence[Observation]) -> bool:
    """Return whether a client sends heartbeats for one of the groups of a spell, or nobody does.

    Without heartbeats the capture shows no members: those there are may be of that client.
    """
    groups = {row.group_id for row in spell if row.group_id is not None}
    lines = [facts.member_lines[group] for group in groups if group in facts.member_lines]
    members = {name for own in lines for name in own.clients.present()}
    return not members or client in members


def _given_up(context: SignalContext, spell: Sequence[Observation]) -> bool:
    """Return whether a client stopped to ask for topics that never were there in the capture.

    Some clients give up after a second.
    """
    missing = {row.location.topic for row in spell} - set(_topics_there(context))
    seen_ns = context.end_ns - spell[0].first_ns
    return bool(missing) and count_requests(spell) >= GIVEN_UP and seen_ns >= GIVEN_UP_NS


def _topics_there(context: SignalContext) -> list[str]:
    """Return the names of topics that some request named without an error."""
    return [
        topic.topic
        for topic in context.rules.topics
        if topic.resolved
        and any(use.errors < use.mentions for use in topic.uses if use.api_key not in SUBSCRIPTIONS)
    ]


def _spells(rows: Sequence[Observation]) -> Iterator[tuple[str, list[Observation]]]:
    by_client: dict[str, list[Observation]] = {}
    for row in rows:
        by_client.setdefault(row.client, []).append(row)
    for client, own in sorted(by_client.items()):
        for spell in spells(own, APART_NS):
            yield client, spell


def _names(spell: Sequence[Observation]) -> tuple[list[str], list[str], list[str], list[str]]:
    """Return topics, partitions, groups and transactional ids of a spell."""
    places = [row.location for row in spell]
    return (
        sorted({place.topic for place in places if place.topic is not None}, key=_as_named),
        sorted({row.partition for row in spell if row.partition is not None}),
        sorted({row.group_id for row in spell if row.group_id is not None}),
        sorted({row.transactional_id for row in spell if row.transactional_id is not None}),
    )


def _as_named(topic: str) -> tuple[bool, str]:
    """Return by what topics are sorted: those that somebody named come before those that were made."""
    return topic.endswith(MADE_BY_STREAMS), topic


def _end(context: SignalContext, last_ns: int) -> int | None:
    return None if context.end_ns - last_ns < 10 * SECOND else last_ns


def _refused(
    context: SignalContext,
    facts: ClientFacts,
    refusal: RefusalRule,
    client: str,
    spell: Sequence[Observation],
) -> Signal:
    topics, partitions, groups, producers = _names(spell)
    last = max(row.last_ns for row in spell)
    begin = facts.began(client, spell[0].first_ns)
    count = count_requests(spell)
    lines = [row.location.connection or 0 for row in spell] if refusal.kind in OF_IDENTITY else []
    mechanisms, users = (identities(context, name, lines) for name in ("sasl_mechanism", "sasl_user"))
    about = [
        *([f"topic {listed(topics, NAMED)}"] if topics else []),
        *([f"group {listed(groups, NAMED)}"] if groups else []),
        *([f"transactional id {listed(producers, NAMED)}"] if producers else []),
        *([f"SASL {listed(mechanisms, NAMED)}"] if mechanisms else []),
        *([f"user {listed(users, NAMED)}"] if users else []),
    ]
    apis = listed(sorted({row.api for row in spell}), NAMED)
    named = f" ({'; '.join(about) or apis})" if about or refusal.kind in NAMED_BY_API else ""
    errors = ", ".join(sorted({row.error for row in spell}))
    servers = sorted(
        {context.servers.name(row.location.server_host, row.location.server_port) for row in spell}
    )
    return make_signal(
        refusal.kind,
        (SubjectKind.CLIENT, client),
        (begin, _end(context, last)),
        f"{client} {refusal.words}{named}: {counted(count, 'request')} refused with {errors} from "
        f"{format_clock(begin)} for {format_duration(last - begin)}"
        f"{_advice(context, refusal, client, spell)}",
        measures={
            "count": count,
            "code": Counter(row.code or 0 for row in spell).most_common(1)[0][0],
            "lasted_ns": last - begin,
            "partitions": len(partitions),
            "was_there": int(
                refusal.kind == "topic_missing" and facts.had_records(topics, spell[0].first_ns)
            ),
            "there_later": int(refusal.kind == "topic_missing" and facts.are_there(client, topics, last)),
        },
        servers=servers,
        clients=[client],
        groups=[*groups, *facts.groups.get(client, ())],
        topics=topics,
        requests=count,
        evidence=[observed(client, errors, spell)],
    )


def _advice(context: SignalContext, refusal: RefusalRule, client: str, spell: Sequence[Observation]) -> str:
    """Return what else is known: a similar topic, the offset that the consumer went on at, the bounds."""
    topics, *_ = _names(spell)
    if refusal.kind == "settings_refused":
        if topics and set(topics) <= OWN_TOPICS:
            return "; only brokers write to it"
        allowed = {ALLOWED[error] for row in spell if (error := ErrorCode(row.code or 0)) in ALLOWED}
        return "".join(f"; {sentence}" for sentence in sorted(allowed))
    if refusal.kind == "topic_missing" and topics:
        if context.shared(ClientFacts).are_there(client, topics, max(row.last_ns for row in spell)):
            return "; it was created meanwhile"
        others = [topic for topic in _topics_there(context) if topic not in topics]
        written = [topic for topic in others if not topic.endswith(MADE_BY_STREAMS)]
        similar = get_close_matches(topics[0], written, 1, SIMILAR)
        return f"; it probably means topic {similar[0]}, which is there" if similar else ""
    if refusal.kind == "offsets_gone":
        later = [
            (row["first_ns"], row["offset"], row["partition"])
            for row in context.rows(READS)
            if row["client"] == client
            and row["name"] in topics
            and row["first_ns"] > spell[0].first_ns
            and row["offset"] is not None
        ]
        if later:
            _, offset, partition = min(later)
            return f"; it went on at offset {format_count(offset)} of partition {partition}"
    return ""


def _throttled(context: SignalContext, client: str, spell: Sequence[Observation], waited_ms: int) -> Signal:
    begin, last = spell[0].first_ns, max(row.last_ns for row in spell)
    apis = ", ".join(sorted({row.api for row in spell}))
    longest = max(row.most for row in spell)
    return make_signal(
        "quota_applied",
        (SubjectKind.CLIENT, client),
        (begin, _end(context, last)),
        f"{client} is throttled by a quota since {format_clock(begin)}: "
        f"{counted(count_exchanges(spell), 'response')} ({apis}) asked it to wait, "
        f"{format_duration(waited_ms * NS_PER_MS)} in all, up to {format_duration(longest * NS_PER_MS)} at "
        "once",
        measures={"count": count_exchanges(spell), "waited_ms": waited_ms, "longest_ms": longest},
        servers=sorted(
            {context.servers.name(row.location.server_host, row.location.server_port) for row in spell}
        ),
        clients=[client],
        requests=count_exchanges(spell),
        wait_ns=waited_ms * NS_PER_MS,
        evidence=[observed(client, f"{apis}: throttled", spell)],
    )
