"""Exchanges come in the order in which they began, however the capture is cut."""

from pathlib import Path

import numpy as np
import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.exchanges.exchange import Exchange
from kdissect.exchanges.filter import ExchangeFilter
from kdissect.exchanges.prescan import NEVER, prescan_capture
from kdissect.exchanges.reader import ExchangeReader

CAPTURES = Path(__file__).parent.parent.parent / "captures"


def followed(split_bytes: int, *names: str) -> list[tuple[int, str, Exchange]]:
    splits = index_captures(
        open_inputs([str(CAPTURES / name) for name in names], "").files, split_bytes
    ).splits
    reader = ExchangeReader(splits, (), prescan_capture(splits))
    return [
        (reader.identity(each.connection), reader.addresses(each.connection)[0], _placeless(each))
        for each in reader.exchanges(ExchangeFilter().header_mask)
    ]


def _placeless(exchange: Exchange) -> Exchange:
    """Without rows and packet numbers, which count splits."""
    request, response = (
        frame and frame._replace(packet=0) for frame in (exchange.request, exchange.response)
    )
    return exchange._replace(connection=0, request=request, response=response)


@pytest.mark.parametrize("name", ["steady.pcapng", "broker-restart.pcapng"])
def test_the_order_is_that_of_first_bytes_for_any_splits(name: str) -> None:
    whole = followed(1 << 30, name)
    times = [each.first_ns for _, _, each in whole]
    assert times == sorted(times)
    answered = [each.response.first_ns for _, _, each in whole if each.response]
    assert answered != sorted(answered)  # they did not finish in this order
    assert followed(100_000, name) == whole


def test_captures_of_different_times_are_put_in_order() -> None:
    both = followed(200_000, "steady.pcapng", "rebalances.pcapng")
    times = [each.first_ns for _, _, each in both]
    assert times == sorted(times)
    assert len(both) == len(followed(1 << 30, "steady.pcapng")) + len(followed(1 << 30, "rebalances.pcapng"))


def test_what_is_still_to_come_is_never_earlier_than_foreseen() -> None:
    splits = index_captures(open_inputs([str(CAPTURES / "steady.pcapng")], "").files, 100_000).splits
    later = prescan_capture(splits).later_ns
    assert len(later) == len(splits) > 5
    assert later[-1] == NEVER
    assert np.all(np.diff(np.array(later, np.int64)) >= 0)


def test_filters_do_not_change_the_order() -> None:
    splits = index_captures(open_inputs([str(CAPTURES / "steady.pcapng")], "").files, 100_000).splits
    reader = ExchangeReader(splits, (), prescan_capture(splits))
    slow = list(reader.exchanges(ExchangeFilter(slower_than_ns=20_000_000).header_mask))
    assert slow
    assert all((each.latency_ns or 0) > 20_000_000 for each in slow)
    assert [each.first_ns for each in slow] == sorted(each.first_ns for each in slow)
