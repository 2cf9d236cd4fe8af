"""The lag of consumers is that of their last fetches."""

import pyarrow as pa
import pytest

from kdissect.live import recent_lags
from kdissect.live.recent_lags import FORGOTTEN_NS, RecentLags
from kdissect.report.aggregate.partial_tables import LAGS
from kdissect.report.partials import Partial

Fetch = tuple[str, str | None, str | None, int, int, int]


def lags(*fetches: Fetch) -> Partial:
    rows = [
        {
            "edge": edge, "connection": 1, "client_id": client, "topic": topic, "topic_id": topic_id,
            "partition": partition, "exchanges": 1, "most": lag, "order_ns": -time_ns, "lag": lag,
        }
        for client, topic, topic_id, partition, time_ns, lag in fetches
        for edge in ("last", "first")
    ]  # fmt: skip
    return Partial({LAGS.name: pa.Table.from_pylist(rows, LAGS.schema)})


def test_the_last_fetch_of_each_partition_counts() -> None:
    found = RecentLags()
    found.add(lags(("c", "orders", None, 0, 20, 5), ("c", "orders", None, 1, 20, 7)), {}, 20)
    found.add(lags(("c", "orders", None, 0, 30, 2), ("c", "orders", None, 1, 10, 100)), {}, 30)
    found.add(lags(("c", None, "id-1", 0, 30, 1)), {"id-1": "payments"}, 30)
    assert found.sums() == {("c", "orders"): 9, ("c", "payments"): 1}


def test_a_partition_that_is_not_fetched_any_more_is_forgotten() -> None:
    found = RecentLags()
    found.add(lags(("c", "orders", None, 0, 20, 5)), {}, 20)
    found.add(lags(), {}, 20 + FORGOTTEN_NS)
    assert found.sums() == {}


def test_series_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_lags, "MOST_SERIES", 2)
    found = RecentLags()
    found.add(lags(*((f"c{number}", "orders", None, 0, 20, 1) for number in range(5))), {}, 20)
    assert len(found.sums()) == 3
    assert found.sums()["other", "other"] == 3
