"""Shared parts of the causes of clients and groups: explained signals, and the plainest judges.

Most of these causes rest on one signal whose sentence is the headline already: the error, or the events of a
group, name the cause. They explain other signals of the same client or group.
"""

from collections.abc import Callable, Sequence

from kdissect.report.findings.rules import RULES
from kdissect.report.incidents.cause import SECOND, Case, Diagnosis, Link, Relation
from kdissect.report.model.incidents import Signal, Subject

WORSE_NS = 60 * SECOND
"""A consequence of a client's change, or a signal of the same reason, is seen within this time."""

FINDINGS = tuple(rule.name for rule in RULES if rule.name != "capture_loss")
OF_GROUPS = (
    "poll_exceeded",
    "member_lost",
    "member_restarts",
    "instance_fenced",
    "rebalance_held_up",
    "rebalances_by_topics",
)
OF_LOAD = (
    "metadata_storm_began",
    "queries_storm",
    "commits_storm",
    "connections_storm",
    "client_restarts",
    "retries_storm",
    "lag_grew",
    "offset_repeated",
    "responses_cut",
    "partition_hot",
)
OF_REFUSALS = (
    "credentials_refused",
    "mechanism_refused",
    "commits_refused",
    "records_damaged",
    "login_out_of_turn",
    "right_missing",
    "records_oversized",
    "timestamps_refused",
    "protocol_refused",
    "group_kind_refused",
    "settings_refused",
    "topic_missing",
    "offsets_gone",
    "quota_applied",
)
LED_BY_CLIENTS = (
    *OF_GROUPS,
    *OF_LOAD,
    *OF_REFUSALS,
    "producer_fenced_out",
    "transaction_open",
    "transactions_aborted",
    "batches_tiny",
    "rate_rose",
    "rate_fell",
    "errors_rose",
)
"""Signals that may be a consequence of a lost, frozen or slow server."""

FOLLOWS_A_CLIENT = (
    Link(
        (*FINDINGS, "errors_repeated", "client_latency_rose", "topic_latency_rose", *LED_BY_CLIENTS),
        Relation.CLIENT,
        before_ns=10 * SECOND,
        after_ns=30 * SECOND,
    ),
)
FOLLOWS_A_GROUP = (
    Link(
        (
            *OF_GROUPS,
            "errors_repeated",
            "coordinator_left",
            "rebalance_storm",
            "member_expired",
            "commit_failed",
            "lag_grew",
            "offset_repeated",
        ),
        Relation.GROUP,
        before_ns=30 * SECOND,
        after_ns=60 * SECOND,
    ),
    *FOLLOWS_A_CLIENT,
)


def stated(confidence: float) -> Callable[[Case], Diagnosis]:
    """Return a function that takes the anchor for the cause; its sentence is the headline."""

    def judge(case: Case) -> Diagnosis:
        anchor = case.anchor
        return Diagnosis(
            anchor.subject, anchor.begin_ns, anchor.end_ns, anchor.sentence, confidence, (anchor,)
        )

    return judge


def joined(
    core: Sequence[Signal], subject: Subject, headline: str, confidence: float, reason: str
) -> Diagnosis:
    """Return the diagnosis of signals that are one incident, from the first begin to the last end.

    `reason` says why they belong together.
    """
    return Diagnosis(
        subject,
        min(one.begin_ns for one in core),
        None if any(one.end_ns is None for one in core) else max(one.end_ns or 0 for one in core),
        headline,
        confidence,
        tuple(core),
        speaks_for=(reason,),
    )
