"""Fixtures for all tests, the same random examples in every run, their order, and the marker `quick`.

A test is quick if nothing marks it as more: `spark`, `broker`, `browser` and `java` say what it starts, and
`slow` that it takes long by itself. A fixture of `STARTS` marks all tests that use it. Files whose tests take
longest come first, so that no worker is left with one of them when the others have ended.
"""

import signal
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from kdissect.spark.session import Engine
from kdissect.spark.spark_settings import SparkSettings
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
NOT_QUICK = ("broker", "spark", "java", "browser", "slow")  # what takes longest first


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not ALL:
        thorough = [item for item in items if item.get_closest_marker("thorough")]
        config.hook.pytest_deselected(items=thorough)
        items[:] = [item for item in items if not item.get_closest_marker("thorough")]
    places: dict[Path, int] = {}
    for item in items:
        for fixture in STARTS.keys() & set(getattr(item, "fixturenames", ())):
            item.add_marker(STARTS[fixture])
        marks = {marker.name for marker in item.iter_markers()}
        place = next((place for place, name in enumerate(NOT_QUICK) if name in marks), len(NOT_QUICK))
        if place == len(NOT_QUICK):
            item.add_marker("quick")
        places[item.path] = min(place, places.get(item.path, place))
    items.sort(key=lambda item: places[item.path])


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    with Engine.start(SparkSettings(master="local[2]", with_sql=True)) as started:
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
