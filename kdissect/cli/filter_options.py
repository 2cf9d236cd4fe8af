"""The options that narrow what a command looks at, the same for every command; `kdissect.tables.filters` says what they mean."""

import argparse
import re
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from kdissect.tables.filters import TableFilter

NS_OF = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
TIMES = "2026-05-01T12:00:00Z, 2026-05-01T14:00:00+02:00, +30s and 5m"


class Moment(NamedTuple):
    """A time as it was written: nanoseconds since the epoch, or since the start of the capture."""

    text: str
    from_start: bool
    time_ns: int

    def absolute(self, start_ns: int) -> int:
        """Give nanoseconds since the epoch."""
        return self.time_ns + start_ns if self.from_start else self.time_ns


class Api(NamedTuple):
    """An API as it was written, and its key."""

    text: str
    key: int


class Failure(NamedTuple):
    """An error as it was written, and its code; None for any."""

    text: str
    code: int | None


def add_filters(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Say what may be said after any command to narrow it."""
    group = parser.add_argument_group(
        "which exchanges", "All must hold; an option given twice wants one or the other."
    )

    def several(option: str, metavar: str, help: str, type: Callable[[str], Any] = str) -> None:
        group.add_argument(option, type=type, action="append", default=[], metavar=metavar, help=help)

    several("--api", "NAME", "name or key of an API", api)
    for name, what in (("client", "client id"), ("topic", "topic"), ("group", "group id")):
        several(f"--{name}", "NAME", f"{what}; * and ? stand for anything")
    several("--broker", "ADDRESS", "host, host:port or node id of a broker; * and ? stand for anything")
    several("--error", "ERROR", "code or name of an error, or 'any'", error)
    group.add_argument("--since", type=moment, metavar="TIME", help=f"times may be {TIMES}")
    group.add_argument("--until", type=moment, metavar="TIME", help="the same; from then on nothing counts")
    return group


def narrowing(chosen: argparse.Namespace, start_ns: int) -> dict[str, Any]:
    """Give the fields of a `Choice`, offsets counted from the start of the capture."""
    return {
        "apis": frozenset(one.key for one in chosen.api),
        "clients": tuple(chosen.client),
        "topics": tuple(chosen.topic),
        "groups": tuple(chosen.group),
        "brokers": tuple(chosen.broker),
        "errors": frozenset(one.code for one in chosen.error),
        "since_ns": None if chosen.since is None else chosen.since.absolute(start_ns),
        "until_ns": None if chosen.until is None else chosen.until.absolute(start_ns),
    }


def choice_of(chosen: argparse.Namespace, start_ns: int) -> "TableFilter":
    """Give what was asked for."""
    from kdissect.tables.filters import TableFilter

    return TableFilter(**narrowing(chosen, start_ns))


def told(chosen: argparse.Namespace) -> list[tuple[str, tuple[str, ...]]]:
    """Give the options that were given, and the values as they were written."""
    values: dict[str, list[Any]] = {
        name: getattr(chosen, name) for name in ("api", "client", "topic", "group", "broker", "error")
    }
    values |= {name: [value] for name in ("since", "until") if (value := getattr(chosen, name)) is not None}
    return [
        (f"--{name}", tuple(one if isinstance(one, str) else one.text for one in given))
        for name, given in values.items()
        if given
    ]


def api(text: str) -> Api:
    """Read the name or key of an API."""
    from kdissect.protocol.schema.registry import APIS

    names: dict[str, int] = {}
    for key, known in APIS.items():
        names[known.name.lower()] = names[str(key)] = key
        if known.former_name:
            names.setdefault(known.former_name.lower(), key)
    if text.isdecimal() and len(text) < 6:
        return Api(text, names.get(text, int(text)))
    if text.lower() not in names:
        raise argparse.ArgumentTypeError(f"{text!r} is no API of Kafka ('kdissect schema' lists them)")
    return Api(text, names[text.lower()])


def error(text: str) -> Failure:
    """Read the name or code of an error."""
    from kdissect.protocol.error_codes import CODES

    if text.lower() == "any":
        return Failure(text, None)
    if re.fullmatch(r"-?\d{1,5}", text):
        return Failure(text, int(text))
    if text.upper() not in CODES:
        raise argparse.ArgumentTypeError(f"{text!r} is no error of Kafka; NOT_COORDINATOR, 16 and any are")
    return Failure(text, CODES[text.upper()].value)


def duration(text: str) -> int:
    """Read a time span as nanoseconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s|m|h)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no time span; 50ms, 1.5s and 2m are")
    return round(float(found[1]) * NS_OF[found[2].replace("µ", "u")])


def moment(text: str) -> Moment:
    """Read a time: absolute with its zone, or an offset from the capture's start."""
    if re.fullmatch(r"\+?\d+(?:\.\d+)?\s*[a-zµ]+", text):
        return Moment(text, from_start=True, time_ns=duration(text.removeprefix("+")))
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time with a zone; {TIMES} are")
    return Moment(text, from_start=False, time_ns=round(time.timestamp() * 10**6) * 1000)
