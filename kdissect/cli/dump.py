"""`kdissect dump`: captures in, every exchange out, in time order."""

import argparse
import re
import sys
import tempfile
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from kdissect.cli.arguments import WHAT_PATHS_ARE, port

if TYPE_CHECKING:
    from kdissect.capture.survey import Survey
    from kdissect.dump.choosing import Choice

SPLIT_BYTES = 8 << 20  # read at a time
WRITE_BYTES = 1 << 16
NS_OF = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}


def add_dump(parser: argparse.ArgumentParser) -> None:
    """Say what may be said after `kdissect dump`."""
    parser.description = (
        "Show every exchange of captures in time order: request, response, and what they mean."
    )
    parser.add_argument("paths", nargs="+", metavar="PATH", help=WHAT_PATHS_ARE)
    parser.add_argument(
        "--format",
        choices=("text", "jsonl"),
        default="text",
        help="a tree for people, or one JSON object a line",
    )
    parser.add_argument("--brief", action="store_true", help="one line of text for each exchange")
    parser.add_argument(
        "--records", action="store_true", help="show records: offset, time, key, value, headers"
    )
    parser.add_argument("--show-secrets", action="store_true", help="show passwords, tokens and salts too")
    parser.add_argument("--limit", type=_count, metavar="N", help="stop after so many exchanges")
    chosen = parser.add_argument_group(
        "which exchanges", "All must hold; an option given twice wants one or the other."
    )
    chosen.add_argument(
        "--api", type=_api, action="append", default=[], metavar="NAME", help="name or key of an API"
    )
    for name, what in (("client", "client id"), ("topic", "topic"), ("group", "group id")):
        chosen.add_argument(
            f"--{name}",
            action="append",
            default=[],
            metavar="NAME",
            help=f"{what}; * and ? stand for anything",
        )
    chosen.add_argument(
        "--error",
        type=_error,
        action="append",
        default=[],
        metavar="ERROR",
        help="code or name of an error, or 'any'",
    )
    chosen.add_argument(
        "--connection",
        action="append",
        default=[],
        metavar="ID",
        help="number of a connection, or host:port of an end",
    )
    chosen.add_argument(
        "--since",
        type=_time,
        metavar="TIME",
        help="2026-05-01T12:00:00Z, or +5s from the start of the capture",
    )
    chosen.add_argument("--until", type=_time, metavar="TIME", help="the same; from then on nothing is shown")
    chosen.add_argument(
        "--slower-than", type=_duration, metavar="TIME", help="answered later than, say, 50ms"
    )
    chosen.add_argument(
        "--port", type=port, action="append", default=[], metavar="N", help="look only at this TCP port"
    )


def dump(chosen: argparse.Namespace) -> None:
    """Run the command."""
    from kdissect.capture.files import open_inputs
    from kdissect.capture.survey import survey

    with tempfile.TemporaryDirectory(prefix="kdissect-") as spool:
        inputs = open_inputs(chosen.paths, spool)
        found = survey(inputs.files, SPLIT_BYTES)
        for warning in (*(f"passed over {reason}" for reason in inputs.skipped), *found.warnings):
            sys.stderr.write(f"kdissect: {warning}\n")
        waiting: list[str] = []
        held = 0
        for line in _lines(chosen, found):
            waiting.append(line)
            held += len(line)
            if held > WRITE_BYTES:
                _write(waiting)
                held = 0
        _write(waiting)


def _write(lines: list[str]) -> None:
    """Write lines as UTF-8, whatever the terminal's locale says."""
    lines.append("")
    sys.stdout.buffer.write("\n".join(lines).encode("utf-8", "backslashreplace"))
    sys.stdout.buffer.flush()
    lines.clear()


def _lines(chosen: argparse.Namespace, found: "Survey") -> Iterator[str]:
    from kdissect.dump.follow import Follower
    from kdissect.dump.foresight import look_ahead
    from kdissect.dump.meaning import Showing
    from kdissect.dump.objects import exchange_object, heading, to_json
    from kdissect.dump.spoken import Spoken
    from kdissect.dump.text import brief, full

    choice = _choice(chosen, found.earliest_time_ns or 0)
    foresight = look_ahead(found.splits, chosen.port)
    follower = Follower(found.splits, chosen.port, foresight)
    showing = Showing(foresight.names, chosen.records, chosen.show_secrets)
    left = chosen.limit
    for exchange in follower.exchanges(choice.rows, choice.until_ns):
        spoken = Spoken(exchange)
        if not choice.message(spoken, foresight.names):
            continue
        if chosen.brief and chosen.format == "text":
            yield brief(spoken, heading(spoken, follower), foresight.names)
        elif chosen.format == "text":
            yield from full(spoken, exchange_object(spoken, follower, showing), foresight.names)
        else:
            yield to_json(exchange_object(spoken, follower, showing))
        if left is not None:
            left -= 1
            if not left:
                return


def _choice(chosen: argparse.Namespace, start_ns: int) -> "Choice":
    from kdissect.dump.choosing import Choice

    return Choice(
        apis=frozenset(chosen.api),
        connections=frozenset(chosen.connection),
        since_ns=_absolute(chosen.since, start_ns),
        until_ns=_absolute(chosen.until, start_ns),
        slower_than_ns=chosen.slower_than,
        clients=tuple(chosen.client),
        topics=tuple(chosen.topic),
        groups=tuple(chosen.group),
        errors=frozenset(chosen.error),
    )


def _absolute(time: tuple[bool, int] | None, start_ns: int) -> int | None:
    if time is None:
        return None
    relative, nanoseconds = time
    return nanoseconds + start_ns if relative else nanoseconds


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return int(text)


def _api(text: str) -> int:
    from kdissect.protocol.schema import APIS

    names: dict[str, int] = {}
    for key, api in APIS.items():
        names[api.name.lower()] = names[str(key)] = key
        if api.former_name:
            names.setdefault(api.former_name.lower(), key)
    if text.isdecimal() and len(text) < 6:
        return names.get(text, int(text))
    if text.lower() not in names:
        raise argparse.ArgumentTypeError(f"{text!r} is no API of Kafka ('kdissect schema' lists them)")
    return names[text.lower()]


def _error(text: str) -> int | None:
    from kdissect.protocol.errors import ERRORS

    if text.lower() == "any":
        return None
    names = {error.name: error.code for error in ERRORS.values()}
    if re.fullmatch(r"-?\d{1,5}", text):
        return int(text)
    if text.upper() not in names:
        raise argparse.ArgumentTypeError(f"{text!r} is no error of Kafka; NOT_COORDINATOR, 16 and any are")
    return names[text.upper()]


def _duration(text: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ns|us|ms|s|m|h)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no time span; 50ms, 1.5s and 2m are")
    return round(float(found[1]) * NS_OF[found[2]])


def _time(text: str) -> tuple[bool, int]:
    """Read a time: (whether it counts from the capture's start, nanoseconds)."""
    if text.startswith("+"):
        return True, _duration(text[1:])
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time; 2026-05-01T12:00:00Z, 2026-05-01T14:00:00+02:00 and +5s are"
        )
    return False, round(moment.timestamp() * 10**6) * 1000
