"""Every kind of signal: what its requests count, and how many signals of the kind read as one sentence.

`counts` names what the requests of a signal are. Signals of one incident that count the same thing may count
the same requests, so the largest of them stands for all; different things add up.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple

from kdissect.report.model.incidents import Signal
from kdissect.report.wording import counted


class SignalCounts(StrEnum):
    """Kind of requests that a signal counts."""

    WAITS = "waits"
    CUT = "cut requests"
    ERRORS = "error responses"
    ATTEMPTS = "attempts to connect"
    OTHER = "requests that were answered well, and are part of the trouble"
    NOTHING = "nothing"


class SignalKind(NamedTuple):
    """One kind: its name, what it is in a few words, what it counts, and the sentence of several of them."""

    name: str
    words: str
    counts: SignalCounts
    together: Callable[[Sequence[Signal]], str] | None = None
    tells_first: bool = False
    """True if it stands in front of other consequences, though no request is counted by it."""


def sentence_of(kind: SignalKind, signals: Sequence[Signal]) -> str:
    """Return one sentence for signals of a kind, the strongest first."""
    if len(signals) == 1:
        return signals[0].sentence
    if kind.together is not None:
        return kind.together(signals)
    return f"{signals[0].sentence} ({counted(len(signals) - 1, 'other')} like it)"
