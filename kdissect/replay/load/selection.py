"""Which captured requests the filters of the command line select: the filters that every command has.

In: the filters as one `ExchangeFilter`, and exchanges in the order of the capture. Out: for each exchange the
option that excludes it, or nothing. The whole capture is read even so, since an excluded request still tells
what a selected one needs: names of topics, sessions and members that began earlier.

The meaning of a filter is that of `kdissect.tables.filters`, with one addition. An exchange that names no
topic passes `--topic`, and one that names no group passes `--group`: the end of a transaction, a heartbeat
and the request for a producer id belong to whatever is replayed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kdissect.array_types import Int64s
from kdissect.exchanges.decoded import DecodedExchange
from kdissect.exchanges.exchange import Exchange
from kdissect.exchanges.filter import (
    ConnectionLookup,
    ExchangeFilter,
    error_codes,
    mentioned_groups,
    mentioned_topics,
)
from kdissect.exchanges.reader import ExchangeReader
from kdissect.jit.rows import Records
from kdissect.protocol.error_codes import error_name
from kdissect.protocol.schema.registry import api_name
from kdissect.replay.load.filter_matches import FilterMatches
from kdissect.streams.flow_state import ORPHAN_RESPONSE, SASL_TOKEN

BY_HEADER = {"--api": "apis", "--since": "since_ns", "--until": "until_ns", "--broker": "brokers"}
BY_MESSAGE = {"--client": "clients", "--topic": "topics", "--group": "groups", "--error": "errors"}
OPTIONS = ("", *BY_HEADER, *BY_MESSAGE)
"""The options that exclude requests, by number; the first one stands for none of them."""


class RequestSelection:
    """The filters at work on one reading of a capture.

    `names` are the topics by id, as the whole capture tells them.
    """

    def __init__(
        self,
        wanted: ExchangeFilter,
        names: Mapping[bytes, str],
    ) -> None:
        self._by_header = dict(_alone(wanted, BY_HEADER))
        self._by_message = dict(_alone(wanted, BY_MESSAGE))
        self._names = dict(names)
        self._wanted, self._matches = wanted, FilterMatches()
        self._excluded: dict[tuple[int, int], str] = {}  # (row of the connection, ordinal) -> option

    @property
    def selects_all(self) -> bool:
        """Return whether there is no filter."""
        return not self._by_header and not self._by_message

    @property
    def reads_messages(self) -> bool:
        """Return whether a filter asks for what only messages tell."""
        return bool(self._by_message)

    def header_options(self, exchanges: Records, connections: ConnectionLookup) -> Int64s:
        """Return for each request which of `OPTIONS` is the first that excludes it by its header."""
        options = np.zeros(len(exchanges), np.int64)
        for option, wanted in self._by_header.items():
            asked, mask = options == 0, wanted.header_mask(exchanges, connections)
            out = asked & ~mask
            options[out] = OPTIONS.index(option)
            self._matches.note(option, bool((asked & mask).any()))
            if out.any() and not self._matches.matched(option):
                self._matches.note_excluded(option, _header_names(option, exchanges[out], connections))
        return options

    def unmatched(self, earliest_ns: int, latest_ns: int) -> str:
        """Return which option matches nothing and the names that are there, "" if every option matches.

        The times are those of the first and the last packet of the capture.
        """
        return self._matches.sentence(self._wanted, earliest_ns, latest_ns)

    def rows(self, exchanges: Records, reader: ExchangeReader) -> NDArray[np.bool_]:
        """Decide by headers, and return a mask that keeps every row: `excluded` returns what was decided."""
        requests = exchanges[~np.isin(exchanges["status"], (ORPHAN_RESPONSE, SASL_TOKEN))]
        options = self.header_options(requests, reader)
        out = options > 0
        places = map(tuple, requests[out][["connection", "ordinal"]].tolist())
        self._excluded.update(zip(places, (OPTIONS[each] for each in options[out].tolist()), strict=True))
        return np.ones(len(exchanges), bool)

    def excluded(self, exchange: Exchange) -> str:
        """Return the option that excludes a request, "" for none; once for each that `rows` has seen."""
        option = self._excluded.pop((exchange.connection, exchange.ordinal or 0), "")
        return option or self.excluded_by_messages(exchange)

    def excluded_by_messages(self, exchange: Exchange) -> str:
        """Return the option that excludes a request by what its messages tell, "" for none."""
        if not self._by_message:
            return ""
        decoded = DecodedExchange(exchange)
        for option, wanted in self._by_message.items():
            if wanted.selects(decoded, self._names):
                self._matches.note(option, True)
            elif self._can_tell(option, decoded):
                if not self._matches.matched(option):
                    self._matches.note_excluded(option, self._message_names(option, decoded))
                return option
        return ""

    def _can_tell(self, option: str, decoded: DecodedExchange) -> bool:
        """Return whether an exchange names what an option selects by.

        Every exchange has a client and an outcome, but not all have a topic or a group.
        """
        return (
            option in ("--client", "--error") or next(self._message_names(option, decoded), None) is not None
        )

    def _message_names(self, option: str, decoded: DecodedExchange) -> Iterator[str]:
        """Return the names in an exchange that an option by messages selects by."""
        if option == "--topic":
            return mentioned_topics(decoded, self._names)
        if option == "--group":
            return mentioned_groups(decoded)
        if option == "--client":
            return (name for name in (decoded.client_id,) if name is not None)
        return (error_name(code) for code in error_codes(decoded) if code)


def _header_names(option: str, exchanges: Records, connections: ConnectionLookup) -> Iterator[str]:
    """Return the names in requests that an option by headers selects by; times have none."""
    if option == "--api":
        yield from (api_name(key) for key in np.unique(exchanges["api_key"]).tolist())
    elif option == "--broker":
        yield from (connections.addresses(row)[1] for row in np.unique(exchanges["connection"]).tolist())


def _alone(wanted: ExchangeFilter, options: Mapping[str, str]) -> Iterator[tuple[str, ExchangeFilter]]:
    """Return for each option with a value a filter that has nothing else."""
    for option, field in options.items():
        value = getattr(wanted, field)
        if value not in (None, (), frozenset()):
            yield option, replace(ExchangeFilter(), **{field: value})
