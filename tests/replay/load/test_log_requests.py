"""`replay.load.log_requests`: filters and plans of a log are those of its capture."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kdissect.errors import UsageError
from kdissect.exchanges.filter import ExchangeFilter
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import ErrorCode
from kdissect.replay.engine.run import Replay
from kdissect.replay.load import log_requests
from kdissect.replay.load.log_files import ROWS
from kdissect.replay.load.log_requests import read_log
from kdissect.replay.load.requests import read
from kdissect.replay.load.spool import Spool
from kdissect.replay.plan import make_plan
from kdissect.replay.settings import ReplaySettings, everything
from tests.helpers.null_target import null_target
from tests.helpers.recorded import CAPTURES
from tests.helpers.replay_logs import make_log

CAPTURE = str(CAPTURES / "transactions.pcapng")
FILTERS: dict[str, Callable[[int], ExchangeFilter]] = {
    "none": everything,
    "api": lambda _start_ns: ExchangeFilter(apis=frozenset({ApiKey.PRODUCE})),
    "since": lambda start_ns: ExchangeFilter(since_ns=start_ns + 2 * 10**9),
    "topic": lambda _start_ns: ExchangeFilter(topics=("transfers",)),
    "client": lambda _start_ns: ExchangeFilter(clients=("*audit*",)),
    "error": lambda _start_ns: ExchangeFilter(errors=frozenset({ErrorCode.CONCURRENT_TRANSACTIONS})),
    "all": lambda start_ns: ExchangeFilter(
        apis=frozenset({ApiKey.PRODUCE, ApiKey.FETCH}), until_ns=start_ns + 9 * 10**9, topics=("transfers",)
    ),
}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs") / "log"
    make_log([CAPTURE], folder)
    return folder


@pytest.mark.parametrize("name", FILTERS)
def test_filters_exclude_the_same_requests(log: Path, tmp_path: Path, name: str) -> None:
    wanted = FILTERS[name]
    expected = [
        each.excluded_by for each in read([CAPTURE], (), str(tmp_path), Spool(), None, wanted).requests
    ]
    seen: list[int] = []
    assert [
        each.excluded_by for each in read_log(log, Spool(), wanted, None, seen.append).requests
    ] == expected
    assert len(set(expected)) == {"none": 1, "all": 4}.get(name, 2)
    assert seen == [len(expected)]


def test_a_log_is_never_in_memory_as_a_whole(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_requests, "ROWS_AT_ONCE", 64)
    divided, table = tmp_path / "log", pq.read_table(log / ROWS)
    shutil.copytree(log, divided)
    pq.write_table(table, divided / ROWS, row_group_size=64, compression="none")
    before, held = pa.total_allocated_bytes(), list[int]()
    read_log(divided, Spool(), progress=lambda _requests: held.append(pa.total_allocated_bytes() - before))
    assert len(held) > 10
    assert max(held) < (divided / ROWS).stat().st_size / 4


@pytest.mark.slow
def test_a_log_leads_to_the_plan_of_its_capture(log: Path) -> None:
    plans = []
    with null_target() as address:
        settings = ReplaySettings(target=(("127.0.0.1", int(address.rpartition(":")[2])),))
        for path in (CAPTURE, str(log)):
            with closing(Replay(settings, [path])) as replay:
                replay.learn()
                plans.append(make_plan(replay, prepared=True))
    assert plans[0] == plans[1]
    assert plans[0]["accounting"]["sent"] > 1000


def test_a_log_stands_alone(log: Path) -> None:
    settings = ReplaySettings(target=(("127.0.0.1", 1),))
    for paths, ports in (([str(log), CAPTURE], ()), ([str(log)], (9092,))):
        with pytest.raises(UsageError, match="is a replay log, which takes no other"):
            Replay(settings, paths, ports)
