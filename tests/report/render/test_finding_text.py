"""Findings as text: lines fit, hostile names stay text."""

from collections.abc import Sequence
from typing import Any

import pytest

from kdissect.report.build.report import build_report
from kdissect.report.model.summary import CaptureFacts
from kdissect.report.partials import (
    summarise,
)
from kdissect.report.render.finding_text import findings as lines
from kdissect.report.render.terminal import Terminal
from kdissect.tables.schemas import (
    CONNECTIONS,
    EXCHANGES,
    PARTITIONS,
)
from kdissect.text import (
    display_width,
)
from tests.report import paper_capture as handmade
from tests.report.paper_capture import MS, US, T

SECOND = 10**9


JOIN, HEARTBEAT, COMMIT = (11, "JoinGroup", 9), (12, "Heartbeat", 4), (8, "OffsetCommit", 9)


def connection(number: int, **more: Any) -> dict[str, Any]:
    """A connection seen in full, open for a minute."""
    counts = dict.fromkeys(("bytes_to_server", "bytes_to_client", "packets"), 1000) | dict.fromkeys(
        (
            "lost_bytes",
            "zero_windows",
            "retransmitted_segments",
            "conflicting_segments",
            "out_of_order_segments",
            "duplicate_packets",
        ),
        0,
    )
    own = {
        "connection": number,
        "client_host": f"10.1.0.{number}",
        "client_port": 40000 + number,
        "server_host": "10.0.0.1",
        "server_port": 9092,
        "first_time_ns": T,
        "last_time_ns": T + 60 * SECOND,
        "opened": "handshake",
        "closed": "fin",
        "protocol": "kafka",
        "server_rtt_ns": 200 * US,
        "client_id": f"client-{number}",
        "faults": 0,
    }
    return counts | own | more


def ask(
    number: int, ordinal: int, api: tuple[int, str, int], at_ms: int, latency: int | None = MS, **more: Any
) -> dict[str, Any]:
    """An exchange without error, if it is answered."""
    return handmade.exchange(number, ordinal, api, at_ms, latency, client_id=f"client-{number}") | more


def failing(
    number: int, api: tuple[int, str, int], code: int, times: list[int], **more: Any
) -> list[dict[str, Any]]:
    """Exchanges with an error, at milliseconds."""
    return [
        ask(number, at, api, time, error_code=code, error_count=1, **more) for at, time in enumerate(times)
    ]


def report(
    exchanges: list[dict[str, Any]],
    partitions: Sequence[dict[str, Any]] = (),
    connections: list[dict[str, Any]] | None = None,
):
    """Compose a report of rows."""
    tables = {
        "connections": handmade.table(
            [connection(1), connection(2)] if connections is None else connections, CONNECTIONS
        ),
        "exchanges": handmade.table(exchanges, EXCHANGES),
        "partitions": handmade.table(list(partitions), PARTITIONS),
    }
    return build_report(summarise(tables), CaptureFacts())


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("unicode", [False, True])
def test_lines_fit_and_hostile_names_stay_text(width, unicode):
    rows = failing(1, HEARTBEAT, 25, [0], group_id="\x1b]0;x\x07" + "y" * 300, client_id="文字" * 80)
    shown = lines(report(rows), Terminal(width, unicode=unicode))
    assert max(map(display_width, shown)) <= width
    assert "\x1b" not in "".join(shown)
    assert unicode or "".join(shown).isascii()
