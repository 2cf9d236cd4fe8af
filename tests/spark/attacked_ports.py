"""Another user of the same machine gets nothing at the ports of a run, and does not disturb it."""

import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.spark import jobs
from kdissect.spark.analysis_work import AnalysisWork
from kdissect.spark.session import Engine
from kdissect.spark.spark_settings import SparkSettings
from kdissect.spark.task_tables import TableOptions
from kdissect.streams.tls.keylog import KeyLog, keys_for
from tests.helpers.other_user import as_other, needs_other_user
from tests.helpers.stranger import STRANGER
from tests.spark.conftest import CAPTURES

pytestmark = pytest.mark.spark

LISTENING = "0A"
MANY = 20_000  # sessions: more than Spark sends with a task itself


def listening_ports(process: int) -> set[int]:
    """Return the TCP ports at which a process listens."""
    inodes = set()
    for file in Path(f"/proc/{process}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed in the meantime
            if found := re.fullmatch(r"socket:\[(\d+)\]", os.readlink(file)):
                inodes.add(found[1])
    rows = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/{process}/net/{name}").read_text().splitlines()[1:]
    ]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == LISTENING and row[9] in inodes}


def jvm_of(engine: Engine) -> int:
    """Return the process id of the JVM of a run."""
    assert engine._gateway is not None
    return engine._gateway.process.pid


def many_keys(keys: KeyLog) -> KeyLog:
    sessions, masters = keys.contents()
    others = {secrets.token_bytes(32): {"CLIENT_RANDOM": secrets.token_bytes(48)} for _ in range(MANY)}
    return KeyLog({**sessions, **others}, masters)


def all_secrets(keys: KeyLog) -> set[bytes]:
    sessions, masters = keys.contents()
    return {secret for labels in sessions.values() for secret in labels.values()} | set(masters.values())


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the events that Spark logs."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="module")
def run(events: Path) -> Iterator[tuple[Engine, KeyLog]]:
    """A Spark that has just dissected a capture with the secrets of its sessions, and logs its events."""
    confs = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
    }
    index = index_captures(open_inputs([str(CAPTURES / "tls.pcapng")], "").files)
    keys = keys_for(None, index.files)
    with Engine.start(SparkSettings(master="local[2]", confs=confs)) as engine:
        context = engine.context()
        options = TableOptions(keys=engine.share_keys(many_keys(keys)))
        result = jobs.merge_figures(jobs.figures(context, AnalysisWork(index.splits, treatment=options)))
        assert result.counts.packets
        yield engine, keys


def processes_of(engine: Engine) -> list[Path]:
    """Return the processes of a run: the JVM and its workers."""
    home = str(engine.home).encode()
    found = [path for path in Path("/proc").glob("[0-9]*") if home in environment_of(path)]
    assert found
    return found


def environment_of(process: Path) -> bytes:
    with suppress(OSError):
        return (process / "environ").read_bytes()
    return b""


def name_of(process: Path) -> str:
    return (process / "comm").read_text().strip()


def files_of(home: Path) -> Iterator[bytes]:
    for path in home.rglob("*"):
        if path.is_file():
            yield path.read_bytes()


@needs_other_user
def test_a_stranger_gets_no_secret_and_no_answer(
    run: tuple[Engine, KeyLog], capfd: pytest.CaptureFixture[str]
) -> None:
    engine, keys = run
    ports = listening_ports(jvm_of(engine)) | listening_ports(os.getpid())
    assert ports
    got = as_other(STRANGER, *ports)
    assert "deserializer" not in got
    taken = bytes.fromhex("".join(re.findall(r"^block \S+ ([0-9a-f]*)$", got, re.MULTILINE)))
    assert not [secret for secret in all_secrets(keys) if secret in taken]
    assert taken == b""
    assert engine.context().parallelize(range(10), 2).map(str).count() == 10
    assert "Traceback" not in capfd.readouterr().err


def test_python_opens_no_port(run: tuple[Engine, KeyLog]) -> None:
    engine, _ = run
    assert not listening_ports(os.getpid())
    group = processes_of(engine)
    assert not [path for path in group if listening_ports(int(path.name)) and name_of(path) != "java"]


def test_no_process_is_given_a_secret_by_argument_or_environment(run: tuple[Engine, KeyLog]) -> None:
    """The secret of the gateway to the JVM lies in a file that the user alone reads."""
    engine, _ = run
    gateway = engine.home / "gateway"
    secret = gateway.read_bytes()[8:]
    assert len(secret) > 20
    assert stat.S_IMODE(engine.home.stat().st_mode) == 0o700
    for process in (*processes_of(engine), Path("/proc/self")):
        assert secret not in environment_of(process) + (process / "cmdline").read_bytes()


def test_no_secret_is_in_a_file_of_the_run(run: tuple[Engine, KeyLog], events: Path) -> None:
    engine, keys = run
    logged = b"".join(files_of(events))
    assert b"SparkListenerJobEnd" in logged
    content = logged + b"".join(files_of(engine.home))
    assert not [
        secret for secret in all_secrets(keys) if secret in content or secret.hex().encode() in content
    ]
