"""Every figure of the JSON against plain loops over the rows of random tables."""

import json

import numpy as np
import pytest

from kdissect.report.build.build_report import build_report
from kdissect.report.model.summary import CaptureFacts
from kdissect.report.partials import summarise
from kdissect.report.render.json import to_json
from tests.helpers import synthetic_tables as synthetic
from tests.report import plain_report as oracle

PERCENTILES = ("p50_ns", "p90_ns", "p99_ns", "p99_9_ns")
CLIENT = ("client_id", "client_software_name", "client_software_version", "client_host")


def assert_same_figures(found, expected, where):
    """Compare all of `expected`.

    Percentiles within 0.5 %, what rests on bucket middles nearly, the rest exactly.
    """
    for name, value in expected.items():
        if name in ("service", "idle"):
            assert (found[name] is None) == (value is None), (where, name)
            if value is not None:
                assert_same_latency(found[name], value, (where, name))
        else:
            assert found[name] == value, (where, name)


def assert_same_latency(found, expected, where):
    for name, value in expected.items():
        if name in PERCENTILES:
            assert abs(found[name] - value) <= 0.005 * value, (where, name)
        elif name == "variance_to_mean_ns":
            assert found[name] == pytest.approx(value, rel=0.02, abs=1e4), (where, name)
        elif name == "histogram":
            assert sum(found[name]) == sum(value)
            assert (
                sum(abs(a - b) for a, b in zip(found[name], value, strict=True)) <= 2 * expected["near_edges"]
            ), where
        elif name == "near_edges":
            continue
        else:
            assert found[name] == value, (where, name)


@pytest.fixture(scope="module", params=[1, 2, 3])
def both(request):
    """Return the JSON report of random tables and the oracle's."""
    tables = synthetic.tables(np.random.default_rng(request.param), 2500)
    return json.loads(to_json(build_report(summarise(tables), CaptureFacts()))), oracle.report(tables)


def keyed(rows, names):
    found = {tuple(row[name] for name in names): row for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.slow
def test_totals(both):
    found, expected = both
    assert_same_figures(found["totals"], expected["totals"], "totals")


@pytest.mark.parametrize(
    ("ranking", "names"),
    [("apis", ("api_key", "api_version")), ("clients", CLIENT), ("brokers", ("server_host", "server_port"))],
)
def test_rankings(both, ranking, names):
    found, expected = both
    rows = keyed(found[ranking], names)
    assert rows.keys() == expected[ranking].keys()
    for key, figures in expected[ranking].items():
        assert_same_figures(rows[key], figures, key)
    times = [row["service"]["sum_ns"] if row["service"] else 0 for row in found[ranking]]
    assert times == sorted(times, reverse=True)


def test_topics(both):
    found, expected = both
    uses = {(topic["topic"], use["api_key"]): use for topic in found["topics"] for use in topic["uses"]}
    assert uses.keys() == expected["topics"].keys()
    for key, figures in expected["topics"].items():
        use = uses[key]
        clients = {tuple(row[name] for name in CLIENT): row for row in use.pop("clients")}
        wanted = figures.pop("clients")
        assert {
            name: tuple(row[column] for column in ("exchanges", "records", "record_bytes", "errors"))
            for name, row in clients.items()
        } == wanted
        assert_same_figures(use, figures, key)
    assert [topic["resolved"] for topic in found["topics"]] == [
        topic["topic"].startswith("topic-") for topic in found["topics"]
    ]


def test_errors_with_their_first_place(both):
    found, expected = both
    rows = keyed(found["errors"], ("api_key", "error_code"))
    assert rows.keys() == expected["errors"].keys()
    for key, error in expected["errors"].items():
        row, first = rows[key], rows[key]["first"]
        assert (row["exchanges"], row["partitions"]) == (error["exchanges"], error["partitions"])
        assert row["error_name"] == synthetic.ERRORS[key[1]]
        assert first["time_ns"] == error["time_ns"]
        assert (first["capture_file"], first["request_packet"], first["topic"], first["partition"]) in error[
            "places"
        ]
