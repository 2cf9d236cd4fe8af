"""An upgrade check as text."""

import pyarrow as pa
import pytest

from kdissect.report.build.check_upgrade import check_upgrade
from kdissect.report.partials import summarise
from kdissect.report.render.terminal import Terminal
from kdissect.report.render.upgrade_text import render
from kdissect.tables.schemas import EXCHANGES
from tests.helpers import paper_capture


def call(client, ordinal, api, **more):
    return paper_capture.exchange(1, ordinal, api, ordinal, paper_capture.MS) | {"client_id": client} | more


CALLS = [
    ("old", (0, "Produce", 2)),
    ("old", (0, "Produce", 2)),
    ("old", (1, "Fetch", 3)),
    ("asks", (18, "ApiVersions", 0)),
    ("asks", (0, "Produce", 2)),
    ("new", (0, "Produce", 9)),
    ("new", (18, "ApiVersions", 3)),
    ("broker", (4, "LeaderAndIsr", 4)),
    ("joins", (11, "JoinGroup", 1)),
]


@pytest.fixture(scope="module")
def partial():
    rows = [call(client, at, api) for at, (client, api) in enumerate(CALLS)]
    rows.append(call("ancient", 90, (0, "Produce", 0)) | {"api_version": None})
    tables = paper_capture.tables()
    return summarise(
        {"exchanges": pa.Table.from_pylist(rows, EXCHANGES), "connections": tables["connections"]}
    )


def test_told(partial):
    text = render(check_upgrade(partial, "4.0"), Terminal(100))
    assert "Produce of Kafka 0.7" in text
    assert "move to KRaft" in text
    assert "1 connection cannot be judged" in text
    nothing = render(check_upgrade(summarise({}), "4.0"), Terminal(100))
    assert "no problems: all 0 clients" in nothing
