"""What is reported although no cause is known: an error that repeats, latency that changed its level."""

from kdissect.protocol.schema.registry import api_name
from kdissect.report.incidents.cause import Case, Diagnosis
from kdissect.report.incidents.server_causes import is_marked
from kdissect.report.wording import capitalized
from kdissect.text import format_clock, format_duration


def errors_repeated(case: Case) -> Diagnosis | None:
    """The same error again and again."""
    errors = case.anchor
    sentence = errors.sentence
    return Diagnosis(
        errors.subject,
        errors.begin_ns,
        errors.end_ns,
        capitalized(sentence),
        0.8,
        (errors,),
    )


def latency_changed(case: Case) -> Diagnosis | None:
    """Latency of a server or a client changed its level."""
    rose = case.anchor
    if not is_marked(rose, case.end_ns):
        return None
    before, after = (format_duration(rose.measures[f"{when}_ns"]) for when in ("before", "after"))
    api = api_name(rose.measures["api_key"])
    return Diagnosis(
        rose.subject,
        rose.begin_ns,
        rose.end_ns,
        f"{api} of {rose.subject.name} went from {before} to {after} at {format_clock(rose.begin_ns)}, and "
        "nothing in the capture shows why",
        0.5,
        (rose,),
        speaks_against=("no server, path or quota explains it",),
    )


def requests_unanswered(case: Case) -> Diagnosis | None:
    """Requests without a response when the capture ends."""
    waiting = case.anchor
    sentence = waiting.sentence
    return Diagnosis(
        waiting.subject,
        waiting.begin_ns,
        None,
        capitalized(sentence),
        0.6,
        (waiting,),
        speaks_against=("the response may come after the end of the capture",),
    )


def slow_responses(case: Case) -> Diagnosis | None:
    """Responses need long from their first to their last byte."""
    transfer = case.anchor
    return Diagnosis(
        transfer.subject, transfer.begin_ns, transfer.end_ns, transfer.sentence, 0.7, (transfer,)
    )
