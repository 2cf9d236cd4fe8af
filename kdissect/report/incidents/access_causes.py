"""Causes that lie with who a client is: logins that fail, or are missing or not in turn, and missing rights.

Several clients that are refused first within a few seconds have one reason: a password or a right that was
changed. They are one incident, which names them all.
"""

from kdissect.protocol.error_codes import ErrorCode
from kdissect.report.incidents.cause import SECOND, Case, Cause, Diagnosis, Layer, Link, Relation
from kdissect.report.incidents.client_links import FOLLOWS_A_CLIENT, WORSE_NS, joined, stated
from kdissect.report.model.findings import Severity
from kdissect.report.model.incidents import Signal, Subject, SubjectKind
from kdissect.report.wording import counted, listed
from kdissect.text import format_clock

NAMED = 3
AT_ONE_TIME_NS = 10 * SECOND
"""Clients that are refused first within this time have one reason."""

ONE_REASON = "all of them were refused first within a few seconds"


def missing_right(case: Case) -> Diagnosis | None:
    """Clients may not use a topic; several of them that are refused at one time have one reason."""
    core = _refused_together(case, Relation.TOPIC) if case.anchor.topics else ()
    clients = sorted({client for one in core for client in one.clients})
    if len(clients) < 2:
        return stated(0.95)(case)
    topics = sorted({topic for one in core for topic in one.topics})
    count = sum(one.measures["count"] for one in core)
    begin_ns = min(one.begin_ns for one in core)
    return joined(
        core,
        Subject(kind=SubjectKind.TOPIC, name=case.anchor.topics[0]),
        f"{counted(len(clients), 'client')} may not use topic {listed(topics, NAMED)} since "
        f"{format_clock(begin_ns)}: {counted(count, 'request')} of {listed(clients, NAMED)} not authorized",
        0.95,
        ONE_REASON,
    )


def wrong_password(case: Case) -> Diagnosis | None:
    """Logins that fail, by a response or by a close; what the finding knows in addition is a consequence."""
    is_finding = case.anchor.kind == "authentication_failed"
    if is_finding and case.near(("credentials_refused",), Relation.CLIENT, WORSE_NS, WORSE_NS):
        return None
    core = () if is_finding else _refused_together(case, Relation.SERVER)
    clients = sorted({client for one in core for client in one.clients})
    if len(clients) < 2:
        return stated(0.95)(case)
    begin_ns = min(one.begin_ns for one in core)
    who = listed(sorted(map(_with_identity, core)), NAMED)
    count = sum(one.measures["count"] for one in core)
    return joined(
        core,
        case.anchor.subject,
        f"{counted(len(clients), 'client')} fail to authenticate since {format_clock(begin_ns)}, "
        f"{counted(count, 'time')} in all: {who}",
        0.95,
        ONE_REASON,
    )


def _with_identity(refused: Signal) -> str:
    """Return the client of a refused login, with its mechanism and user, as its sentence begins."""
    return refused.sentence.partition(": ")[0].replace(" failed to authenticate", "", 1)


def _refused_together(case: Case, relation: Relation) -> tuple[Signal, ...]:
    """Return the anchor, and the refusals of its kind that began at one time with it."""
    own = case.anchor
    near = case.near((own.kind,), relation, AT_ONE_TIME_NS, AT_ONE_TIME_NS)
    return own, *(one for one in near if abs(one.begin_ns - own.begin_ns) <= AT_ONE_TIME_NS)


ACCESS_CAUSES = (
    Cause(
        name="wrong_password",
        layer=Layer.CLIENT,
        severity=Severity.CRITICAL,
        anchors=("credentials_refused", "authentication_failed"),
        judge=wrong_password,
        links=FOLLOWS_A_CLIENT,
        needs="SASL authentication of a client fails: by its response, or the server closes the connection "
        "after the token",
        against="other logins of the client succeed",
        means="The client has wrong credentials, or a mechanism that the listener does not "
        "offer; it cannot work.",
        next="the user and the password of this client, sasl.mechanism, and when they were changed",
    ),
    Cause(
        name="mechanism_refused",
        layer=Layer.CLIENT,
        severity=Severity.CRITICAL,
        anchors=("mechanism_refused",),
        judge=stated(0.95),
        links=FOLLOWS_A_CLIENT,
        needs="a SaslHandshake is refused with UNSUPPORTED_SASL_MECHANISM",
        against="",
        means="The listener does not offer the SASL mechanism of the client. No password was looked at.",
        next="sasl.mechanism of the client, sasl.enabled.mechanisms of the listener, and the port that the "
        "client uses",
    ),
    Cause(
        name="login_missing",
        layer=Layer.CLIENT,
        severity=Severity.CRITICAL,
        anchors=("login_absent",),
        judge=stated(0.85),
        links=FOLLOWS_A_CLIENT,
        needs="servers close three or more connections of a client at its first request after ApiVersions, "
        "none of which began a login, and never answer it",
        against="the request has a version that the server does not speak, or is very large",
        means="The listener wants a SASL login, and the client does not begin one.",
        next="security.protocol of the client (SASL_PLAINTEXT or SASL_SSL), and the port that it uses",
    ),
    Cause(
        name="login_out_of_turn",
        layer=Layer.CLIENT,
        severity=Severity.WARNING,
        anchors=("login_out_of_turn",),
        judge=stated(0.9),
        links=(
            Link(("errors_repeated",), Relation.CLIENT, codes=frozenset({ErrorCode.ILLEGAL_SASL_STATE})),
            Link(("unanswered_cut", "connection_churn", "connections_storm"), Relation.CLIENT, SECOND, 0),
        ),
        needs="two or more SASL requests of a client are refused with ILLEGAL_SASL_STATE",
        against="",
        means="The password is not the reason. The client logs in again on a connection within a second of "
        "the login before (KIP-368), or logs in at a listener that takes no logins.",
        next="how often the client's library logs in again; security.protocol of the client and of the "
        "listener",
    ),
    Cause(
        name="session_expired",
        layer=Layer.CLIENT,
        severity=Severity.WARNING,
        anchors=("sessions_expired",),
        judge=stated(0.85),
        links=FOLLOWS_A_CLIENT,
        needs="servers close three or more connections of a client that had logged in, each in a request, "
        "all at one age, and none with a second login",
        against="connections end all at once: then the server ended",
        means="The listener bounds how long a login counts (connections.max.reauth.ms), and the client does "
        "not log in again in time.",
        next="connections.max.reauth.ms of the listener; whether the client's library knows KIP-368",
    ),
    Cause(
        name="missing_right",
        layer=Layer.CLIENT,
        severity=Severity.CRITICAL,
        anchors=("right_missing",),
        judge=missing_right,
        links=FOLLOWS_A_CLIENT,
        needs="a request is refused with an authorization error",
        against="",
        means="The ACLs do not allow what this client asks for.",
        next="the principal of the client, and the ACLs of the topic, group or transactional id",
    ),
)
