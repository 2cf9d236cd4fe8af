"""Who waits: all connections while the table of waits has them, and at least some of them when it has not."""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from kdissect.report.aggregate.grouping import TableColumns
from kdissect.report.model.incidents import Signal
from kdissect.report.signals.waiting import located_waits, waiting_text, who_waits
from kdissect.report.timeline.signal_tables import SIGNAL_TABLES, WAITS
from tests.helpers.made_paths import report_of
from tests.helpers.report_rows import PRODUCE, SECOND, Row, connection, exchange_of


def context_of(rows: Sequence[Row]) -> Any:
    """Return a context with these rows of WAITS, and connections 1 to 3 of clients a, b and c."""
    waits = TableColumns(pa.Table.from_pylist(list(rows), WAITS.schema))
    numbers = waits.ints("connection")
    facts = SimpleNamespace(numbers=[1, 2, 3], rows=lambda _: np.where(numbers > 3, -1, numbers - 1))
    clients = lambda rows: tuple("abc"[row] + " at host" for row in rows.tolist())  # noqa: E731
    return cast("Any", SimpleNamespace(facts=facts, table=lambda _: waits, clients_of=clients))


def wait(connection: int | None, requests: int, client: str, begin_step: int | None = 4) -> Row:
    return {
        "connection": connection, "exchanges": requests, "client_id": client, "client_host": "host",
        "begin_step": begin_step,
    }  # fmt: skip


def test_requests_are_counted_and_connections_are_those_that_are_known() -> None:
    context = context_of([wait(1, 5, "a"), wait(2, 1, "b"), wait(None, 7, "d"), wait(1, 2, "a")])
    waiting = who_waits(context, np.array([0, 2, 3]))
    assert waiting.clients == ("a at host", "d at host")
    assert waiting.connections.tolist() == [0]
    assert (waiting.requests, waiting.unknown_requests, waiting.are_several) == (14, 7, True)
    assert waiting_text(waiting.measures) == "14 requests on at least 1 connection"
    both = who_waits(context, np.array([0, 1]))
    assert both.measures == {"connections": 2, "requests": 6}
    assert waiting_text(both.measures) == "6 requests on 2 connections"
    assert not who_waits(context, np.array([0, 3])).are_several
    assert waiting_text(who_waits(context, np.array([2])).measures) == "7 requests"


def test_rows_without_steps_tell_no_time_and_other_connections_are_not_in_the_report() -> None:
    context = context_of([wait(1, 5, "a"), wait(None, 1, "b"), wait(1, 7, "a", None), wait(9, 2, "x")])
    assert located_waits(context).tolist() == [True, True, False, False]


def silences(monkeypatch: pytest.MonkeyPatch, most: int) -> list[Signal]:
    """Return the silences in a report whose table of waits keeps `most` rows.

    40 connections wait for 0.2 s twice, and for 3 s in between. Nobody asks for anything from 25 to 29 s.
    """
    monkeypatch.setitem(SIGNAL_TABLES, WAITS.name, replace(WAITS, most=most))
    waits_s = {5_000: 0.2, 15_000: 3, 35_000: 0.2}
    times = (*range(0, 15_500, 500), *range(18_500, 25_500, 500), *range(29_000, 40_000, 500))
    rows = [
        exchange_of(number, ordinal, PRODUCE, at, round(waits_s.get(at, 0.001) * SECOND), client_id="one")
        for number in range(1, 41)
        for ordinal, at in enumerate(times)
    ]
    ends = [connection(number, client_host="10.1.0.1", client_id="one") for number in range(1, 41)]
    found = report_of((), (), ends, (), rows, on_grid=True).signals
    return [signal for signal in found if signal.kind == "server_silent"]


def test_a_silence_is_the_same_when_the_table_of_waits_has_given_up_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two short waits of a connection are not one long wait, and a span without requests is no silence."""
    (whole,) = silences(monkeypatch, WAITS.most)
    assert "for 3.50s, while 40 requests on 40 connections waited" in whole.sentence
    (few,) = silences(monkeypatch, 40)
    assert few.sentence == whole.sentence.replace("on 40 connections", "on at least 20 connections")
    assert few.measures == whole.measures | {"connections": 20, "unknown_requests": 20}
    assert (few.begin_ns, few.end_ns, few.clients) == (whole.begin_ns, whole.end_ns, whole.clients)
