"""Watching a pipe and an interface, as people do it."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from kdissect.live.stream_source import piped
from tests.helpers.command import COMMAND, assert_one_sentence, environment, kdissect
from tests.helpers.command_here import kdissect_here
from tests.helpers.rings import CAPTURES, assert_same, tables_at_once, tables_of_watch
from tests.lab.maven import need
from tests.lab.mock import MockCluster

pytestmark = pytest.mark.spark
OPTIONS = ("--every", "300ms", "--format", "jsonl", "--quiet", "--master", "local[2]")


def events(text: str, kind: str) -> list[dict[str, object]]:
    return [event for event in map(json.loads, text.splitlines()) if event["event"] == kind]


@pytest.mark.thorough
def test_a_pipe_gives_the_rows_of_its_capture(tmp_path: Path) -> None:
    capture = CAPTURES / "old-broker.pcap"
    done = kdissect("watch", "-", "--out", tmp_path / "out", *OPTIONS, stdin=capture.read_bytes())
    assert done.returncode == 0, done.stderr
    last = events(done.stdout, "interval")[-1]
    assert (last["open_connections"], last["lost_files"], last["skipped_packets"]) == (0, 0, 0)
    report = kdissect("report", tmp_path / "out")
    assert " Capture     standard input (file 0)" in report.stdout
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / capture.name).write_bytes(capture.read_bytes())
    found, expected = tables_of_watch(tmp_path / "out"), tables_at_once(tmp_path / "whole")
    for tables in (found, expected):
        for name in tables:
            placed = [
                column for column in tables[name].column_names if "packet" in column or "file" in column
            ]
            tables[name] = tables[name].drop_columns(placed)
    assert_same(found, expected)


def test_a_pipe_without_a_capture_is_a_failure() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"GET / HTTP/1.1\r\n")
    with os.fdopen(reader, "rb") as pipe, os.fdopen(writer, "wb"):
        with piped(pipe, interrupt=writer) as source:
            until = time.monotonic() + 10
            while not source.has_ended and time.monotonic() < until:
                time.sleep(0.01)
            assert "standard input is not a packet capture" in str(source.failure())
        assert not Path(source.directory).exists()


def test_an_interface_that_is_not_there_is_one_sentence() -> None:
    need("tcpdump")
    done = kdissect_here("watch", "--interface", "nosuch0", *OPTIONS)
    assert done.returncode == 2
    assert_one_sentence(done.stderr)
    assert "tcpdump cannot capture on nosuch0" in done.stderr


@pytest.mark.broker
def test_an_interface_is_watched_until_the_signal(tmp_path: Path) -> None:
    need("tcpdump")
    if os.geteuid() != 0:
        pytest.skip("capturing needs root")
    from confluent_kafka import Producer

    with MockCluster(brokers=1) as cluster:
        places = ("--interface", "lo", "--port", str(cluster.ports[0]))
        run = subprocess.Popen(
            [*COMMAND, "watch", *places, *OPTIONS],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(TMPDIR=str(tmp_path)),
        )
        assert run.stdout is not None
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        until = time.monotonic() + 120
        lines: list[dict[str, object]] = []
        os.set_blocking(run.stdout.fileno(), False)
        text = b""
        while sum(int(str(line["exchanges"])) for line in lines) < 5 and time.monotonic() < until:
            producer.produce("orders", b"1")
            producer.flush(10)
            time.sleep(0.2)
            text += run.stdout.read() or b""
            lines = events(text.decode(), "interval") if text.endswith(b"\n") else lines
        run.send_signal(signal.SIGTERM)
        _, errors = run.communicate(timeout=60)
    assert run.returncode == 143, errors
    assert sum(int(str(line["exchanges"])) for line in lines) >= 5
    assert lines[-1]["dropped_packets"] is not None
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("kdissect-")]
    assert not errors
