"""The filters that `read` and `load_tables` take: the same as those of the commands.

Names come as one or several, times as text (`time_expressions`), as datetime, as timedelta from the start of
the capture, or as nanoseconds since the epoch. A wrong value raises UsageError with one sentence.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from kdissect.errors import UsageError
from kdissect.protocol.error_codes import CODES, find_error_code
from kdissect.protocol.schema.registry import APIS, find_api_key
from kdissect.tables.time_expressions import parse_time
from kdissect.text import did_you_mean

Names: TypeAlias = str | int | Iterable[str | int]
"""One name or several; patterns with * and ? where the command line takes them."""

Moment: TypeAlias = str | datetime | timedelta | int
"""A time as the commands take it, with its zone, since the start of the capture, or ns since the epoch."""


def name_fields(
    *,
    api: Names = (),
    client: Names = (),
    topic: Names = (),
    group: Names = (),
    broker: Names = (),
    error: Names = (),
) -> dict[str, Any]:
    """Return the fields of a Filter that names make. Raise UsageError for an unknown API or error."""
    fields: dict[str, Any] = {
        "apis": frozenset(_api_key(name) for name in several(api)),
        "errors": frozenset(_error_code(name) for name in several(error)),
    }
    for field, names in (("clients", client), ("topics", topic), ("groups", group), ("brokers", broker)):
        fields[field] = tuple(map(str, several(names)))
    return fields


def check_moments(*moments: Moment | None) -> None:
    """Raise UsageError for what is not a time, before a capture is read."""
    for moment in moments:
        time_fields(moment, None, 0)


def time_fields(since: Moment | None, until: Moment | None, start_ns: int) -> dict[str, Any]:
    """Return the fields of a Filter that times make, for a capture that starts at `start_ns`."""
    return {
        "since_ns": None if since is None else _absolute(since, start_ns),
        "until_ns": None if until is None else _absolute(until, start_ns),
    }


def several(names: Names) -> Iterable[str | int]:
    """Return names one after the other, also if there is only one."""
    return (names,) if isinstance(names, str | int) else names


def ports_of(port: int | Iterable[int]) -> tuple[int, ...]:
    """Return the ports to read; none stands for all."""
    return (port,) if isinstance(port, int) else tuple(port)


def ns_of(duration: timedelta) -> int:
    """Return a duration in nanoseconds."""
    return duration // timedelta(microseconds=1) * 1000


def _api_key(name: str | int) -> int:
    key = find_api_key(str(name))
    if key is None:
        hint = did_you_mean(str(name), (known.name for known in APIS.values()))
        raise UsageError(f"{name!r} is not an API of Kafka{hint}")
    return key


def _error_code(name: str | int) -> int | None:
    if str(name).lower() == "any":
        return None
    code = find_error_code(str(name))
    if code is None:
        raise UsageError(f"{name!r} is not an error of Kafka{did_you_mean(str(name), CODES)}")
    return code


def _absolute(moment: Moment, start_ns: int) -> int:
    if isinstance(moment, str):
        try:
            return parse_time(moment).absolute(start_ns)
        except ValueError as wrong:
            raise UsageError(str(wrong)) from None
    if isinstance(moment, timedelta):
        return start_ns + ns_of(moment)
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise UsageError(f"{moment} has no time zone")
        return round(moment.timestamp() * 10**6) * 1000
    return moment
