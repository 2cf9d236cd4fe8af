"""The options that select exchanges, the same for every command.

`kdissect.tables.filters` defines what they mean.
"""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from kdissect.tables.time_expressions import TIMES, TimeExpression, parse_duration, parse_time
from kdissect.text import did_you_mean

if TYPE_CHECKING:
    from kdissect.exchanges.filter import ExchangeFilter
    from kdissect.tables.filters import Filter


class ApiArgument(NamedTuple):
    """An API as the user wrote it, and its key."""

    text: str
    key: int


class ErrorArgument(NamedTuple):
    """An error as the user wrote it, and its code; None stands for any error."""

    text: str
    code: int | None


def add_filters(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add the options that select exchanges, as a group of their own. Return the group."""
    group = parser.add_argument_group(
        "which exchanges",
        "Different options are combined with AND; repeating an option combines its values with OR.",
    )

    def several(option: str, metavar: str, help: str, type: Callable[[str], Any] = str) -> None:
        group.add_argument(option, type=type, action="append", default=[], metavar=metavar, help=help)

    several("--api", "NAME", "name or key of an API", api_argument)
    for name, what in (("client", "client id"), ("topic", "topic"), ("group", "group id")):
        several(f"--{name}", "NAME", f"{what}; * and ? are wildcards")
    several("--broker", "ADDRESS", "broker: host, host:port or node id; * and ? are wildcards")
    several("--error", "ERROR", "error name, error code, or 'any'", error_argument)
    group.add_argument(
        "--since",
        type=time_argument,
        metavar="TIME",
        help=f"only exchanges from this time on: {TIMES} (the last two from the start of the capture)",
    )
    group.add_argument("--until", type=time_argument, metavar="TIME", help="only exchanges before this time")
    return group


def filter_fields(arguments: argparse.Namespace, start_ns: int) -> dict[str, Any]:
    """Return the fields of a Filter; relative times count from the start of the capture."""
    return {
        "apis": frozenset(one.key for one in arguments.api),
        "clients": tuple(arguments.client),
        "topics": tuple(arguments.topic),
        "groups": tuple(arguments.group),
        "brokers": tuple(arguments.broker),
        "errors": frozenset(one.code for one in arguments.error),
        "since_ns": None if arguments.since is None else arguments.since.absolute(start_ns),
        "until_ns": None if arguments.until is None else arguments.until.absolute(start_ns),
    }


def table_filter(arguments: argparse.Namespace, start_ns: int) -> "Filter":
    """Return the filter that the options describe."""
    from kdissect.tables.filters import Filter

    return Filter(**filter_fields(arguments, start_ns))


def exchange_filter(arguments: argparse.Namespace, start_ns: int) -> "ExchangeFilter":
    """Return the filter that the options of `options.add_exchange_filters` describe."""
    from kdissect.exchanges.filter import ExchangeFilter

    return ExchangeFilter(
        **filter_fields(arguments, start_ns),
        connections=frozenset(arguments.connection),
        slower_than_ns=arguments.slower_than,
    )


def given_filters(arguments: argparse.Namespace) -> list[tuple[str, tuple[str, ...]]]:
    """Return the options that were given, each with its values as the user wrote them."""
    values: dict[str, list[Any]] = {
        name: getattr(arguments, name) for name in ("api", "client", "topic", "group", "broker", "error")
    }
    values |= {
        name: [value] for name in ("since", "until") if (value := getattr(arguments, name)) is not None
    }
    return [
        (f"--{name}", tuple(one if isinstance(one, str) else one.text for one in given))
        for name, given in values.items()
        if given
    ]


def api_argument(text: str) -> ApiArgument:
    """Return the API of a name or key. Raise ArgumentTypeError."""
    from kdissect.protocol.schema.registry import APIS, find_api_key

    key = find_api_key(text)
    if key is None:
        hint = did_you_mean(text, (known.name for known in APIS.values()))
        raise argparse.ArgumentTypeError(
            f"{text!r} is not an API of Kafka{hint} ('kdissect schema' lists them)"
        )
    return ApiArgument(text, key)


def error_argument(text: str) -> ErrorArgument:
    """Return the error of a name or code. Raise ArgumentTypeError."""
    from kdissect.protocol.error_codes import CODES, find_error_code

    if text.lower() == "any":
        return ErrorArgument(text, None)
    code = find_error_code(text)
    if code is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not an error of Kafka{did_you_mean(text, CODES)} "
            "(examples: NOT_COORDINATOR, 16, any)"
        )
    return ErrorArgument(text, code)


def duration_argument(text: str) -> int:
    """Return a duration in nanoseconds. Raise ArgumentTypeError."""
    try:
        return parse_duration(text)
    except ValueError as wrong:
        raise argparse.ArgumentTypeError(str(wrong)) from None


def time_argument(text: str) -> TimeExpression:
    """Return a time (see `tables.time_expressions`). Raise ArgumentTypeError."""
    try:
        return parse_time(text)
    except ValueError as wrong:
        raise argparse.ArgumentTypeError(str(wrong)) from None
