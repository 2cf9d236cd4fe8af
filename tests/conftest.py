"""One Spark for all tests that need one and do not test how the command starts it; an object store; the same examples in every run."""

from collections.abc import Iterator

import hypothesis
import pytest

from kdissect.spark.session import Engine, SparkSettings

# No example is too slow on a machine that does other things as well, and what chance finds is for tests/fuzz.
hypothesis.settings.register_profile(
    "steady", derandomize=True, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("steady")


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    with Engine.start(SparkSettings(master="local[2]")) as started:
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
