"""How far consumers are behind, by client and topic, as their last fetches show.

In come the partials of batches, whose table LAGS has the last fetch of each client and partition. A partition
that was not fetched for FORGOTTEN_NS is forgotten. There are at most MOST_PARTITIONS of them, and MOST_SERIES
sums; the rest is added up under "other".
"""

from collections.abc import Mapping

from kdissect.live.call_series import MOST_SERIES, OTHER
from kdissect.report.aggregate.partial_tables import LAGS
from kdissect.report.partials import Partial

FORGOTTEN_NS = 600_000_000_000
MOST_PARTITIONS = 20_000
LAST = "last"  # the edge of LAGS


class RecentLags:
    """See the module's text."""

    def __init__(self) -> None:
        self._lags: dict[tuple[str, str, int], tuple[int, int]] = {}  # time and lag

    def add(self, finished: Partial, names: Mapping[str, str], now_ns: int) -> None:
        """Add what a batch has finished; `names` are those of topics by their ids."""
        for row in finished.table(LAGS).to_pylist():
            if row["edge"] != LAST:
                continue
            topic = row["topic"] or names.get(row["topic_id"] or "") or row["topic_id"] or ""
            key = (row["client_id"] or "", topic, row["partition"])
            time_ns = -row["order_ns"]  # the order of the last fetch is its negative time
            if key not in self._lags and len(self._lags) >= MOST_PARTITIONS:
                key = (OTHER, OTHER, row["partition"])
            if time_ns >= self._lags.get(key, (0, 0))[0]:
                self._lags[key] = time_ns, row["lag"]
        self._lags = {key: one for key, one in self._lags.items() if one[0] > now_ns - FORGOTTEN_NS}

    def sums(self) -> dict[tuple[str, str], int]:
        """Return records that are still to be read, by client and topic."""
        found: dict[tuple[str, str], int] = {}
        for (client, topic, _), (_, lag) in self._lags.items():
            key = (client, topic)
            if key not in found and len(found) >= MOST_SERIES:
                key = (OTHER, OTHER)
            found[key] = found.get(key, 0) + lag
        return found
