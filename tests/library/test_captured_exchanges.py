"""Reading captures from a program: the same exchanges as a dump, lazily, without Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

import pytest

import kdissect
from kdissect.cli.main import main
from kdissect.errors import UsageError, UserError
from tests.helpers.command import environment
from tests.helpers.handmade_capture import write_capture
from tests.helpers.kafka07_messages import encode_kafka07_request
from tests.helpers.recorded import CAPTURES

STEADY = CAPTURES / "steady.pcapng"
REFUSALS = str(CAPTURES / "refusals.pcapng")


def test_exchanges_are_those_of_a_dump(capfd: pytest.CaptureFixture[str]) -> None:
    main(["dump", "--format", "jsonl", REFUSALS])
    dumped = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    seen = list(kdissect.read(REFUSALS))
    assert [(one["connection"], one["ordinal"], one["api_name"], one["latency_ns"]) for one in dumped] == [
        (one.connection, one.ordinal, one.api_name, one.latency_ns) for one in seen
    ]
    assert [one["request_packet"] for one in dumped] == [
        one.request_place and one.request_place.packet for one in seen
    ]


def test_requests_of_kafka_0_7_have_their_own_names(tmp_path: Path) -> None:
    part = {"topic": "orders", "partition": 2, "offset": 7, "max_size": 1000}
    several = {"requests": [part, part]}
    talk = [(True, encode_kafka07_request(kind, body)) for kind, body in ((1, part), (2, several), (1, part))]
    seen = list(kdissect.read(write_capture(tmp_path / "old.pcap", talk)))
    assert [one.api_name for one in seen] == ["Fetch", "MultiFetch", "Fetch"]


def test_filters_are_those_of_the_command_line() -> None:
    refused = list(kdissect.read(REFUSALS, error="any"))
    assert refused
    assert all(one.errors for one in refused)
    produced = list(kdissect.read([STEADY], api=["Produce", 1], topic="ord*"))
    assert {one.api_key for one in produced} == {0, 1}
    assert all("orders" in one.topics for one in produced)
    first = next(kdissect.read(STEADY))
    assert {one.connection for one in kdissect.read(STEADY, connection=first.connection)} == {
        first.connection
    }


def test_a_window_is_given_by_times_or_by_durations() -> None:
    everything = list(kdissect.read(STEADY))
    start_ns = min(one.first_ns for one in everything)
    since_ns = start_ns + 2 * 10**9
    wanted = [one.first_ns for one in everything if one.first_ns >= since_ns]
    moment = datetime.fromtimestamp(since_ns // 1000 / 1e6, UTC)
    assert [one.first_ns for one in kdissect.read(STEADY, since=since_ns)] == wanted
    assert abs(len(list(kdissect.read(STEADY, since=moment))) - len(wanted)) <= 1
    assert 0 < len(list(kdissect.read(STEADY, until=timedelta(seconds=1)))) < len(everything)


def test_records_of_writes_are_those_that_are_read() -> None:
    written = [
        (record.key, record.value)
        for one in kdissect.read(STEADY, api="Produce", topic="orders")
        for record in one.records
    ]
    read = {
        (record.key, record.value)
        for one in kdissect.read(STEADY, api="Fetch", topic="orders")
        for record in one.records
        if record.topic == "orders"
    }
    assert len(written) > 100
    assert read <= set(written)
    assert read


def test_reading_is_lazy_and_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    exchanges = kdissect.read(STEADY)
    assert len(list(islice(exchanges, 3))) == 3
    assert list(tmp_path.iterdir())
    exchanges.close()  # type: ignore[attr-defined]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"api": "Produzieren"}, "is not an API"),
        ({"error": "OOPS"}, "is not an error"),
    ],
)
def test_wrong_names_are_refused_at_once(options: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        kdissect.read(STEADY, **options)  # type: ignore[arg-type]


def test_what_is_no_capture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        next(kdissect.read(tmp_path / "absent.pcap"))
    with pytest.raises(UsageError, match="no time zone"):
        next(kdissect.read(STEADY, since=datetime(2026, 1, 1)))  # noqa: DTZ001 - the case


@pytest.mark.slow
def test_spark_is_not_loaded() -> None:
    code = (
        "import sys, kdissect\n"
        f"print(next(kdissect.read({str(STEADY)!r})).status)\n"
        "print({'pyspark', 'py4j'} & set(sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, env=environment(), check=True
    )
    assert done.stdout == "answered\nset()\n"


def test_the_package_lists_what_it_offers() -> None:
    assert set(kdissect.__all__) <= set(dir(kdissect))
    assert all(
        hasattr(kdissect, name) for name in kdissect.__all__ if name not in ("load_tables", "register")
    )
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        kdissect.nothing  # noqa: B018
