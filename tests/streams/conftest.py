"""Wires for the tests of streams."""

from pathlib import Path

import pytest

from tests.helpers.segment_wire import Wire


@pytest.fixture
def wire(tmp_path: Path) -> Wire:
    return Wire(tmp_path / "payload")


@pytest.fixture(params=[False, True], ids=["client-is-a", "server-is-a"])
def either(request, tmp_path: Path) -> Wire:
    return Wire(tmp_path / "payload", server_is_a=request.param)
