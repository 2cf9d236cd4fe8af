"""Filters that match nothing: found while requests are selected, and told with the names that are there.

A filter of topics keeps requests that name no topic, so one that matches nothing would still send some of
them. The filters are asked one after the other, as requests are excluded: one is unmatched if it excluded
requests, and none that it was asked about matched.
"""

from collections.abc import Collection, Iterable, Mapping

from kdissect.exchanges.filter import ExchangeFilter
from kdissect.protocol.error_codes import error_name
from kdissect.protocol.schema.registry import api_name
from kdissect.text import escape, format_timestamp

MOST_NAMES = 1000  # of a kind that are kept
MOST_SHOWN = 8

KINDS: Mapping[str, str] = {
    "--api": "APIs",
    "--since": "time",
    "--until": "time",
    "--broker": "brokers",
    "--client": "client ids",
    "--topic": "topics",
    "--group": "groups",
    "--error": "errors",
}
"""Option -> the names that are there."""


class FilterMatches:
    """Facts about each option: whether it matched and excluded requests, and the names in excluded ones."""

    def __init__(self) -> None:
        self._matched: set[str] = set()
        self._names: dict[str, set[str]] = {}  # of options that excluded requests

    def matched(self, option: str) -> bool:
        """Return whether a request has matched an option."""
        return option in self._matched

    def note(self, option: str, matched: bool) -> None:
        """Note whether requests matched an option, if one did or could have."""
        if matched:
            self._matched.add(option)
            self._names.pop(option, None)

    def note_excluded(self, option: str, names: Iterable[str]) -> None:
        """Note that an option excluded requests, which have names of the option's kind."""
        if option not in self._matched:
            known = self._names.setdefault(option, set())
            known.update(name for name in names if len(known) < MOST_NAMES)

    def sentence(self, wanted: ExchangeFilter, earliest_ns: int, latest_ns: int) -> str:
        """Return which option matches nothing and the names that are there, "" if every option matches.

        The times are those of the first and the last packet of the capture.
        """
        for option in KINDS:
            if option not in self._names:
                continue
            if KINDS[option] == "time":
                first, last = (format_timestamp(each, digits=3) for each in (earliest_ns, latest_ns))
                return f"{option} leaves nothing: the capture is from {first} to {last}"
            return (
                f"nothing matches {option} {_values(option, wanted)}: {_there(option, self._names[option])}"
            )
        return ""


def _values(option: str, wanted: ExchangeFilter) -> str:
    """Return the values of an option as a user writes them."""
    values: Mapping[str, Collection[str]] = {
        "--api": [api_name(key) for key in sorted(wanted.apis)],
        "--broker": wanted.brokers,
        "--client": wanted.clients,
        "--topic": wanted.topics,
        "--group": wanted.groups,
        "--error": sorted("any" if code is None else error_name(code) for code in wanted.errors),
    }
    return f" {option} ".join(escape(value) for value in values[option])


def _there(option: str, names: Collection[str]) -> str:
    """Return the names of an option's kind that are there."""
    kind = KINDS[option]
    if not names:
        return f"the requests that it is asked about have no {kind}"
    shown = sorted(names)[:MOST_SHOWN]
    left = len(names) - len(shown)
    more = f" and {left:,}{' or more' if len(names) == MOST_NAMES else ' more'}" if left else ""
    return f"the {kind} there are {', '.join(map(escape, shown))}{more}"
