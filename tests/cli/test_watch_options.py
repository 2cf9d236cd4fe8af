"""The options of `watch`: what is refused."""

from pathlib import Path

import pytest

from kdissect.cli.arguments import parse


@pytest.mark.parametrize("option", ["--connection", "--slower-than"])
def test_what_is_not_there_is_refused(option: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as exit:
        parse(["watch", str(tmp_path), option, "x"])
    assert exit.value.code == 2


def test_a_cluster_is_taken_and_spark_connect_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse(["watch", "ring", "--master", "spark://host:7077"]).master == "spark://host:7077"
    with pytest.raises(SystemExit):
        parse(["watch", "ring", "--master", "sc://host:15002"])
    assert "watch runs on no Spark Connect server" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "listener"),
    [(":9464", ("127.0.0.1", 9464)), ("0.0.0.0:1", ("0.0.0.0", 1)), ("[::1]:80", ("::1", 80))],
)
def test_metrics_are_for_this_machine_unless_a_host_is_named(text: str, listener: tuple[str, int]) -> None:
    assert parse(["watch", "ring", "--metrics", text]).metrics == listener


@pytest.mark.parametrize("text", ["9464", ":", ":0", "host:port"])
def test_metrics_need_a_port(text: str) -> None:
    with pytest.raises(SystemExit):
        parse(["watch", "ring", "--metrics", text])
