"""Times and durations as people write them, for the commands and for programs.

A time is absolute (2026-05-01T14:00:00+02:00, or nanoseconds since the epoch as JSON and tables have them),
of the capture's day in UTC (12:00:05.632, as reports print it), or counts from the start of the capture
(+30s, 5m). Another text raises ValueError with one sentence.
"""

import re
from datetime import UTC, datetime, time
from enum import Enum
from typing import NamedTuple, TypeVar

NS_OF = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
NS_PER_DAY = 86_400 * 10**9
MOST_YEARS = 100  # of a duration: a time that far from any capture still has 64 bits
TIMES = "2026-05-01T14:00:00+02:00, 12:00:05.632 (UTC, on the capture's day), +30s and 5m"
"""Forms that `--since` takes. The second form is how reports print a time."""
EPOCH_NS = r"\d{19}"  # from 2001 to 2262
NAMED_UTC = " UTC"

T = TypeVar("T", datetime, time)


class Origin(Enum):
    """Origin of a time: the epoch, the first packet of the capture, or midnight (UTC) of its day."""

    EPOCH = "epoch"
    START = "start"
    MIDNIGHT = "midnight"


class TimeExpression(NamedTuple):
    """A time as the user wrote it, in nanoseconds since an origin."""

    text: str
    origin: Origin
    time_ns: int

    def absolute(self, start_ns: int) -> int:
        """Return the time in nanoseconds since the epoch, for a capture that starts at `start_ns`.

        A time of day is the one nearest to the start: a capture of 23:50 to 00:10 has two days.
        """
        if self.origin is Origin.MIDNIGHT:
            midnight = start_ns // NS_PER_DAY * NS_PER_DAY
            days = (midnight - NS_PER_DAY, midnight, midnight + NS_PER_DAY)
            return min((day + self.time_ns for day in days), key=lambda time_ns: abs(time_ns - start_ns))
        return self.time_ns + start_ns if self.origin is Origin.START else self.time_ns


def parse_duration(text: str) -> int:
    """Return a duration in nanoseconds. Raise ValueError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s|m|h)", text)
    if not found:
        raise ValueError(f"{text!r} is not a duration; examples: 50ms, 1.5s, 2m")
    duration_ns = float(found[1]) * NS_OF[found[2].replace("µ", "u")]
    if duration_ns > MOST_YEARS * 366 * NS_PER_DAY:
        raise ValueError(f"{text!r} is longer than {MOST_YEARS} years")
    return round(duration_ns)


def parse_time(text: str) -> TimeExpression:
    """Return a time: absolute, of the capture's day, or relative to its start. Raise ValueError.

    Times without a zone are UTC, as reports print them; the headers of reports name it.
    """
    if re.fullmatch(r"\+?\d+(?:\.\d+)?\s*[a-zµ]+", text):
        return TimeExpression(text, Origin.START, parse_duration(text.removeprefix("+")))
    if re.fullmatch(EPOCH_NS, text):
        return TimeExpression(text, Origin.EPOCH, int(text))
    try:
        plain, below_us = _without_ns(text)
        if re.match(r"\d\d?:", plain):
            moment = time.fromisoformat(plain.zfill(_width(plain)))
            return TimeExpression(text, Origin.MIDNIGHT, _ns_of_day(_in_utc(moment, text)) + below_us)
        date = _in_utc(datetime.fromisoformat(plain), text)
    except ValueError:
        raise ValueError(f"{text!r} is not a time; examples: {TIMES}") from None
    return TimeExpression(text, Origin.EPOCH, round(date.timestamp() * 10**6) * 1000 + below_us)


def _without_ns(text: str) -> tuple[str, int]:
    """Return a time without the name of its zone and without digits below a microsecond, and these in ns."""
    plain = text.removesuffix(NAMED_UTC)
    digits = re.search(r"[.,]\d{6}(\d+)", plain)
    if digits is None:
        return plain, 0
    return plain[: digits.start(1)] + plain[digits.end(1) :], int(digits[1][:3].ljust(3, "0"))


def _in_utc(moment: T, text: str) -> T:
    """Return a moment in UTC, unless it has a zone. Raise ValueError for one that has two."""
    if moment.tzinfo and text.endswith(NAMED_UTC):
        raise ValueError(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _width(text: str) -> int:
    """Return the length of a time of day whose hour has two digits."""
    return len(text) + (text[1] == ":")


def _ns_of_day(moment: time) -> int:
    """Return the nanoseconds since midnight (UTC) of a time of day; one with a zone may be negative."""
    zone = moment.utcoffset()
    seconds = moment.hour * 3600 + moment.minute * 60 + moment.second - (zone.total_seconds() if zone else 0)
    return round(seconds) * 10**9 + moment.microsecond * 1000
