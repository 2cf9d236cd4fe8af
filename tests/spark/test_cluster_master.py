"""`spark.cluster_master`: masters that are there, that refuse, that nobody knows, and that are silent."""

import socket
import time
from collections.abc import Iterator

import pytest

from kdissect.cli.main import main
from kdissect.errors import ExitCode
from kdissect.spark import cluster_master
from kdissect.spark.cluster_master import SILENT, MasterError, check_master, silence_noticed
from tests.helpers.conversations import CAPTURES

REFUSING = "127.0.0.1:1"


@pytest.fixture
def listening() -> Iterator[str]:
    """A port of this machine that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_one_master_that_takes_connections_is_enough(listening: str) -> None:
    check_master(f"spark://{listening}", pytest.fail)
    check_master(f"spark://{REFUSING},{listening}", pytest.fail)


@pytest.mark.parametrize("url", ["local[2]", "yarn", "k8s://https://127.0.0.1:1", "sc://127.0.0.1:1"])
def test_other_clusters_are_not_asked(url: str) -> None:
    check_master(url, pytest.fail)


@pytest.mark.parametrize(
    ("masters", "sentence"),
    [
        (REFUSING, r"the Spark master 127\.0\.0\.1:1 cannot be reached: connection refused \(--master\)"),
        (f"{REFUSING},{REFUSING}", r"cannot be reached: connection refused"),
        ("no-such-host.invalid:7077", r"the Spark master no-such-host\.invalid:7077 cannot be reached: "),
        (f"{'long' * 20}:7077", r"cannot be reached: "),
        ("host", r"spark://host is not the address of a Spark master; example: spark://host:7077"),
        ("host:port", r"spark://host:port is not the address"),
    ],
)
def test_masters_that_cannot_be_reached_are_one_sentence(masters: str, sentence: str) -> None:
    with pytest.raises(MasterError, match=sentence):
        check_master(f"spark://{masters}", pytest.fail)


def test_a_connection_that_nobody_takes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    def connect(_address: tuple[str, int], timeout_s: float) -> socket.socket:
        time.sleep(timeout_s)
        raise TimeoutError("timed out")

    monkeypatch.setattr(socket, "create_connection", connect)
    monkeypatch.setattr(cluster_master, "REACHED_S", 0.2)
    monkeypatch.setattr(cluster_master, "PATIENCE_S", 0.02)
    with pytest.raises(MasterError, match="cannot be reached: timed out"):
        check_master("spark://10.0.0.1:7077", told.append)
    assert told == [SILENT]


@pytest.mark.parametrize(
    ("url", "waits_s", "lines"),
    [("spark://host:7077", 0.2, [SILENT]), ("spark://host:7077", 0.0, []), ("yarn", 0.2, [])],
)
def test_only_a_master_that_is_silent_for_long_is_told(
    url: str, waits_s: float, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(cluster_master, "PATIENCE_S", 0.05)
    with silence_noticed(url, told.append):
        time.sleep(waits_s)
    time.sleep(0.1)
    assert told == lines


def test_a_command_ends_before_spark_starts(capsys: pytest.CaptureFixture[str]) -> None:
    capture = str(CAPTURES / "steady.pcapng")
    assert main(["analyze", capture, "--master", f"spark://{REFUSING}", "--quiet"]) == ExitCode.USER_ERROR
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "kdissect: the Spark master 127.0.0.1:1 cannot be reached: connection refused (--master)"
