"""A Spark context that the JVM was asked for early is the one that PySpark would have made."""

import socket
import threading
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError
from pyspark.core.context import DEFAULT_CONFIGS

from kdissect.spark.session import Engine
from kdissect.spark.spark_settings import SparkSettings
from kdissect.spark.startup.early_context import PYSPARK_SETTINGS, EarlyContext
from tests.spark.conftest import spark_apart

SETTINGS = {"spark.x": "a\\b\nc"}
QUESTIONS = len(SETTINGS) + len(PYSPARK_SETTINGS) + 2
GATEWAY = SimpleNamespace(_gateway_client=None)


class Answering:
    """A JVM that answers once it was asked everything."""

    def __init__(self, answers: str) -> None:
        self.asked = ""
        self._answers = answers
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with self._listener, connection, connection.makefile(encoding="utf-8", newline="\n") as lines:
            for line in lines:
                self.asked += line
                if self.asked.endswith("JavaSparkContext\ne\n"):
                    connection.sendall(self._answers.encode())
                    return

    def heard(self) -> str:
        self._thread.join()
        return self.asked


def asked(jvm: Answering) -> EarlyContext:
    early = EarlyContext.ask(jvm.port, "secret", SETTINGS)
    assert early is not None
    return early


def test_everything_is_sent_before_an_answer_is_awaited() -> None:
    jvm = Answering("")
    early = asked(jvm)
    heard = jvm.heard()
    assert heard.startswith("A\nsecret\nc\nz:java.lang.System\nsetProperty\n")
    assert "\nsspark.x\nsa\\\\b\\nc\ne\n" in heard
    assert heard.endswith("e\ni\norg.apache.spark.api.java.JavaSparkContext\ne\n")
    early.close()


@pytest.mark.parametrize("answers", ["", "!yv\n", "!yv\n" * (QUESTIONS - 1) + "!yro"])
def test_a_jvm_that_ends_is_a_lost_connection(answers: str) -> None:
    with pytest.raises(ConnectionResetError, match="Java ended"):
        asked(Answering(answers)).take(GATEWAY)


@pytest.mark.parametrize("refused", [0, QUESTIONS - 1])
def test_what_java_refuses_is_raised(refused: int) -> None:
    answers = ["!yv\n"] * QUESTIONS
    answers[refused] = "!xsno such thing\n"
    with pytest.raises(Py4JError, match="no such thing"):
        asked(Answering("".join(answers))).take(GATEWAY)


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert EarlyContext.ask(port, "secret", SETTINGS) is None


def test_pyspark_adds_nothing_else() -> None:
    assert {name: str(value) for name, value in DEFAULT_CONFIGS.items()} == PYSPARK_SETTINGS


@pytest.mark.spark
def test_settings_are_those_of_the_ordinary_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KDISSECT_STARTUP", "-early_context")

    def settings(early: bool) -> dict[str, str]:
        confs = {"spark.app.id": "same", "spark.driver.port": "0", "spark.mine": "1"}
        with spark_apart(), Engine.start(SparkSettings("local[2]", confs)) as engine:
            assert engine._gateway is not None
            engine._gateway.address()
            if early:
                engine._ask_early()
            assert (engine._early is not None) == early
            context = engine.context()
            assert context.parallelize(range(10), 2).map(lambda number: 2 * number).sum() == 90
            found = dict(context.getConf().getAll())
            places = str(engine.home)
        return {name: value.replace(places, "HOME") for name, value in found.items()}

    changing = {"spark.driver.port", "spark.app.id", "spark.app.startTime", "spark.app.submitTime"}
    one, other = settings(early=True), settings(early=False)
    assert {*one} - {"spark.app.submitTime"} == {*other} - {"spark.app.submitTime"}
    assert [name for name in one if name not in changing and one[name] != other.get(name)] == []
