"""Fixtures for all tests, the same random examples in every run, their order, and the marker `quick`.

A test is quick if nothing marks it as more: `spark`, `broker`, `browser` and `java` say what it starts, and
`slow` that it takes long by itself. A fixture of `STARTS` marks all tests that use it. Quick files come last,
so that no worker is left with a long one when the others have ended. Those of one kind are spread evenly over
the others: tests with brokers measure times, which several of them at once would disturb. All files that
replay to the `target` are for one worker, so its brokers start once.
"""

import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from kdissect.spark.session import Engine
from kdissect.spark.spark_settings import RunKind, SparkSettings
from tests.helpers.tiers import ALL

# No example is too slow on a machine that does other things as well, and what chance finds is for tests/fuzz.
hypothesis.settings.register_profile(
    "steady", derandomize=True, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("steady")

# A shell ignores SIGINT in what it starts in the background, and all its children would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Processes that a fixture starts, and so every test that uses it.
STARTS = {"engine": "spark", "analyzed": "spark", "target": "broker", "tab": "browser", "peer": "java"}
NOT_QUICK = ("broker", "spark", "java", "browser", "slow")


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not ALL:
        thorough = [item for item in items if item.get_closest_marker("thorough")]
        config.hook.pytest_deselected(items=thorough)
        items[:] = [item for item in items if not item.get_closest_marker("thorough")]
    kinds: dict[Path, int] = {}  # of files: the first of NOT_QUICK that marks a test
    for item in items:
        for fixture in STARTS.keys() & set(getattr(item, "fixturenames", ())):
            item.add_marker(STARTS[fixture])
        marks = {marker.name for marker in item.iter_markers()}
        kind = next((kind for kind, name in enumerate(NOT_QUICK) if name in marks), len(NOT_QUICK))
        if kind == len(NOT_QUICK):
            item.add_marker("quick")
        kinds[item.path] = min(kind, kinds.get(item.path, kind))
    places = _spread_kinds(kinds)
    items.sort(key=lambda item: places[item.path])


def _spread_kinds(kinds: Mapping[Path, int]) -> dict[Path, tuple[bool, float]]:
    """Return the places of files in the order of all: each kind spread over the others, quick ones last."""
    of_kind = Counter(kinds.values())
    before: Counter[int] = Counter()
    places = {}
    for path, kind in kinds.items():
        places[path] = kind == len(NOT_QUICK), (before[kind] + 0.5) / of_kind[kind]
        before[kind] += 1
    return places


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadFileScheduling

    class FewTargets(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return "target" if _replays_to_target(config.rootpath / file) else file

    return FewTargets(config, log)


@cache
def _replays_to_target(file: Path) -> bool:
    return "target: SecuredCluster" in file.read_text("utf-8")


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    with Engine.start(SparkSettings(master="local[2]", kind=RunKind.SQL)) as started:
        started.context()
        yield started


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """Start an S3 server on the loopback interface; give the settings that a URI needs to lead there."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer(
        ip_address="127.0.0.1", port=0, verbose=False
    )
    from pyarrow import fs

    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        settings = f"?scheme=http&endpoint_override={host}:{port}&region=us-east-1&allow_bucket_creation=true"
        system, _ = fs.FileSystem.from_uri("s3://captures" + settings)
        system.create_dir("captures")
        yield settings
    server.stop()
