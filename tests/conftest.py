"""One Spark for all tests that need one and do not test how the command starts it."""

from collections.abc import Iterator

import pytest

from kdissect.pipeline.session import Engine, Settings


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    with Engine.start(Settings(master="local[2]")) as started:
        started.context()
        yield started
