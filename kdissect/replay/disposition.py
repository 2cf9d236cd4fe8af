"""How each captured request ends: with exactly one disposition, and a sum that must come out.

    captured = sent + skipped
    sent     = answered + no answer due + timed out + closed + failed to send
    skipped  = policy + inter-broker + retry + version + lossy + dependency + headless + undecodable

A request of the replayer itself (handshakes, metadata, producer ids, heartbeats, further parts of a split
request) is `synthetic` and counted apart.
"""

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum

NOT_IN = "its member did not get into the group"
"""Why a request of a member is skipped that the target did not let in."""


class Disposition(StrEnum):
    """Fate of a captured request."""

    ANSWERED = "answered"
    NO_ANSWER_DUE = "no answer due"
    TIMED_OUT = "timed out"
    CLOSED = "closed"
    FAILED_TO_SEND = "failed to send"
    POLICY = "policy"
    INTER_BROKER = "inter-broker"
    RETRY = "retry"
    VERSION = "version"
    LOSSY = "lossy"
    DEPENDENCY = "dependency"
    HEADLESS = "headless"
    UNDECODABLE = "undecodable"


SENT = (
    Disposition.ANSWERED,
    Disposition.NO_ANSWER_DUE,
    Disposition.TIMED_OUT,
    Disposition.CLOSED,
    Disposition.FAILED_TO_SEND,
)
SKIPPED = tuple(bucket for bucket in Disposition if bucket not in SENT)


class SkipRequest(Exception):
    """A request, or a part of it, is skipped: counted by its disposition, for this reason.

    Handlers raise it, and whoever drives them takes it in. It is not the user's mistake, so it never leaves a
    replay.
    """

    def __init__(self, bucket: Disposition, reason: str) -> None:
        super().__init__(reason)
        self.bucket, self.reason = bucket, reason


class Unaccounted(Exception):
    """The dispositions do not add up to what was captured: a defect of the replayer, which is reported."""


def check(captured: int, buckets: Mapping[Disposition, int]) -> None:
    """Raise Unaccounted unless every captured request has exactly one disposition."""
    total = sum(buckets.values())
    if total != captured:
        raise Unaccounted(
            f"{captured} requests were captured, but {total} are accounted for: {dict(buckets)}"
        )


def sums(buckets: Mapping[Disposition, int]) -> dict[str, object]:
    """Return the equation above as reports show it."""
    counts = Counter(buckets)
    sent = {bucket.value: counts[bucket] for bucket in SENT}
    skipped = {bucket.value: counts[bucket] for bucket in SKIPPED}
    return {
        "captured": sum(counts.values()),
        "sent": sum(sent.values()),
        "skipped": sum(skipped.values()),
        "sent_as": sent,
        "skipped_as": skipped,
    }
