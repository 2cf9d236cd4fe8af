"""The command as people run it: what it prints, where, and with which exit code."""

import json
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from kdissect import __version__
from tests.helpers.command import COMMAND, environment, kdissect

ROOT = Path(__file__).parents[1]
CAPTURE = ROOT / "captures" / "cluster-life.pcapng"

PCAP = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)


@pytest.fixture(autouse=True)
def nothing_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every command removes its temporary files, whatever happens to it."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    yield
    assert not list(temporary.glob("kdissect-*"))


def record(frame: bytes, seconds: int = 1_700_000_000, kept: int = 1 << 16) -> bytes:
    return struct.pack("<IIII", seconds, 0, len(frame[:kept]), len(frame)) + frame[:kept]


def ipv4(protocol: int, payload: bytes) -> bytes:
    header = struct.pack(
        ">BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 0, 0, 64, protocol, 0, bytes(4), bytes(4)
    )
    return bytes(12) + b"\x08\x00" + header + payload


def tcp(source: int, destination: int, sequence: int, payload: bytes) -> bytes:
    return ipv4(
        6, struct.pack(">HHIIBBHHH", source, destination, sequence, 1, 0x50, 0x18, 8192, 0, 0) + payload
    )


UDP = record(ipv4(17, struct.pack(">HHHH", 53, 53, 8, 0)))
HTTP = record(tcp(40000, 80, 1, b"GET / HTTP/1.1\r\n\r\n")) + record(
    tcp(80, 40000, 1, b"HTTP/1.1 200 OK\r\n\r\n")
)
REQUESTS = [tcp(40000, 9092, 1 + 210 * n, bytes(210)) for n in range(3)]

BAD_CAPTURES = {
    "empty": (b"", "is empty"),
    "text": (b"Dear all,\nplease find attached\n" * 10, "is not a packet capture"),
    "half a header": (PCAP[:13], "cut off"),
    "no packets": (PCAP, "holds no packets"),
    "no TCP": (PCAP + UDP, "holds no TCP packets (1 packets of other kinds)"),
    "a snap length of 64": (
        PCAP + b"".join(record(frame, kept=64) for frame in REQUESTS),
        (
            "1 TCP connection 95.2% of the payload is cut off (a snap length of 128 keeps the headers of "
            "requests)"
        ),
    ),
    "no Kafka": (PCAP + HTTP, "holds no Kafka traffic (1 TCP connection of other protocols)"),
}


@pytest.mark.parametrize("name", BAD_CAPTURES)
def test_a_capture_that_gives_nothing_is_one_sentence(name: str, tmp_path: Path) -> None:
    contents, words = BAD_CAPTURES[name]
    path = tmp_path / "some.pcap"
    path.write_bytes(contents)
    done = kdissect("analyze", "--quiet", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert_one_sentence(done.stderr)
    assert str(path) in done.stderr


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    done = kdissect("analyze", tmp_path / "nowhere.pcap")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"kdissect: {tmp_path}/nowhere.pcap: no such file or directory\n"


def test_a_directory_without_captures_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing here")
    done = kdissect("analyze", "--quiet", tmp_path)
    assert done.returncode == 2
    assert "no packet captures in this directory" in done.stderr


@pytest.mark.spark
def test_a_capture_that_is_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "cut.pcapng"
    path.write_bytes(CAPTURE.read_bytes()[:599_983])
    done = kdissect("analyze", "--quiet", "--format", "json", path)
    assert done.returncode == 0, done.stderr
    assert "the file ends within a record" in done.stderr
    assert_one_sentence(done.stderr)
    report = json.loads(done.stdout)
    assert report["totals"]["exchanges"] > 100
    assert report["capture"]["warnings"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "required: COMMAND"),
        (["explain"], "invalid choice: 'explain'"),
        (["analyze"], "required: PATH"),
        (["analyze", "--port", "99999", "x"], "'99999' is not a TCP port"),
        (["analyze", "--master", "moon", "x"], "'moon' is not a Spark master"),
        (["analyze", "--remote", "moon", "x"], "'moon' is not a Spark Connect server"),
        (["analyze", "--remote", "sc://moon", "--master", "local", "x"], "not allowed with argument"),
        (["analyze", "--format", "xml", "x"], "invalid choice: 'xml'"),
        (["analyze", "--split-bytes", "0", "x"], "'0' is not a size"),
        (["export", "x", "--table", "exchanges"], "required: --out"),
        (["export", "x", "--out", "y", "--table", "records"], "invalid choice: 'records'"),
    ],
)
def test_wrong_arguments_are_one_sentence(arguments: list[str], words: str) -> None:
    done = kdissect(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert_one_sentence(done.stderr)


def test_version_and_help_need_neither_spark_nor_compiler() -> None:
    assert kdissect("--version").stdout == f"kdissect {__version__}\n"
    seen = "import sys, kdissect.cli as c\ntry: c.main(['analyze', '--help'])\nexcept SystemExit: pass\n"
    loaded = "print({'pyspark', 'numba', 'numpy', 'pyarrow'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", seen + loaded],
        capture_output=True,
        text=True,
        env=environment(),
        check=True,
    )
    assert done.stdout.endswith("set()\n")


def test_the_jvm_starts_before_anything_large_is_loaded() -> None:
    stopped = "import sys, kdissect.spark.session as s\ns.Engine.start = lambda *_: sys.exit()\n"
    seen = "import kdissect.cli as c\ntry: c.main(['analyze', sys.argv[1]])\nexcept SystemExit: pass\n"
    loaded = "print({'pyspark', 'numba', 'numpy', 'pyarrow'} & set(sys.modules))"
    done = subprocess.run(
        [
            sys.executable,
            "-P",
            "-c",
            stopped + seen + loaded,
            str(Path(__file__).parents[1] / "captures" / "steady.pcapng"),
        ],
        capture_output=True,
        text=True,
        env=environment(),
        check=True,
    )
    assert done.stdout == "set()\n"


@pytest.mark.parametrize("command", [["analyze"], ["export", "--table", "exchanges"]])
def test_output_that_cannot_be_written_is_told_before_the_work(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "file").write_text("in the way")
    done = kdissect(command[0], CAPTURE, *command[1:], "--out", tmp_path / "file" / "below")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"kdissect: cannot write to {tmp_path}/file/below: not a directory")
    assert_one_sentence(done.stderr)  # no word of the capture


def test_java_that_is_too_old_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from kdissect.cli import main
    from kdissect.spark import session

    monkeypatch.setattr(session, "find_java", lambda: java_of({"PATH": ""}))
    assert main(["analyze", str(CAPTURE)]) == 2
    assert "install Java 17 or newer" in capsys.readouterr().err


def java_of(variables: dict[str, str]) -> object:
    from kdissect.spark.startup.java import find_java

    return find_java(variables, ())


def test_a_page_that_cannot_be_written_is_told_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for page, why in ((tmp_path, "it is a directory"), (tmp_path / "file" / "page.html", "not a directory")):
        done = kdissect("analyze", CAPTURE, "--html", page)
        assert (done.returncode, done.stdout) == (2, "")
        assert why in done.stderr
        assert_one_sentence(done.stderr)


@pytest.fixture(scope="module")
def analyzed(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    """What `kdissect analyze CAPTURE --out DIR` gave, and DIR."""
    folder = tmp_path_factory.mktemp("analyzed") / "report"
    done = kdissect("analyze", CAPTURE, "--out", folder)
    assert done.returncode == 0, done.stderr
    return done, folder


@pytest.mark.spark
def test_report_on_standard_output_and_in_a_directory(
    analyzed: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    done, folder = analyzed
    written = json.loads((folder / "report.json").read_text())
    assert written["totals"]["exchanges"] > 0
    assert sorted(path.name for path in folder.iterdir()) == ["report.json", "report.txt"]
    assert "Produce" in done.stdout
    assert "Produce" in (folder / "report.txt").read_text()
    assert f"{CAPTURE}: pcapng" in done.stderr
    assert "WARN" not in done.stderr
    assert "log4j" not in done.stderr


@pytest.mark.spark
def test_temporary_files_may_lie_deep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No address of a socket has room for such a TMPDIR."""
    deep = tmp_path / ("a" * 90) / ("b" * 90)
    deep.mkdir(parents=True)
    monkeypatch.setenv("TMPDIR", str(deep))
    done = kdissect("analyze", "--quiet", str(CAPTURE))
    assert done.returncode == 0, done.stderr
    assert not list(deep.iterdir())


def test_input_may_be_a_stream(analyzed: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    plain = json.loads((analyzed[1] / "report.json").read_text())
    streamed = kdissect("analyze", "--quiet", "--format", "json", "-", stdin=CAPTURE.read_bytes())
    assert streamed.stderr == ""
    for part in ("totals", "apis", "clients", "brokers", "topics"):
        found, expected = json.loads(streamed.stdout)[part], plain[part]
        assert without_files(found) == without_files(expected)


def without_files(value: object) -> object:
    """Leave out the name of the capture, which a stream does not have."""
    if isinstance(value, dict):
        return {name: without_files(inner) for name, inner in value.items() if name != "capture_file"}
    return [without_files(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.spark
def test_port_narrows(tmp_path: Path) -> None:
    done = kdissect("analyze", "--quiet", "--port", "9", CAPTURE)
    assert (done.returncode, done.stdout) == (2, "")
    assert "holds no TCP packets on port 9" in done.stderr


@pytest.mark.spark
def test_export_refuses_to_replace_and_then_does(tmp_path: Path) -> None:
    out = tmp_path / "tables"
    arguments = ("export", CAPTURE, "--table", "connections", "--format", "csv", "--out", out)
    assert kdissect(*arguments).returncode == 0
    rows = [line for path in (out / "connections").iterdir() for line in path.read_text().splitlines()]
    assert rows[0].startswith("connection,client_host,client_port")
    again = kdissect(*arguments)
    assert (again.returncode, again.stdout) == (2, "")
    assert "is not empty" in again.stderr
    assert kdissect(*arguments, "--overwrite", "--quiet").stderr == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tables", "temporary"]


@pytest.mark.spark
def test_latencies_are_those_of_the_exported_exchanges(
    analyzed: tuple[subprocess.CompletedProcess[str], Path], tmp_path: Path
) -> None:
    """Numpy over the exported rows gives the figures of the report: exactly, or as near as its percentiles
    promise."""
    done = kdissect("export", CAPTURE, "--table", "exchanges", "--out", tmp_path / "tables", "--quiet")
    assert done.returncode == 0, done.stderr
    rows = pyarrow.parquet.read_table(tmp_path / "tables" / "exchanges")
    latency = rows["latency_ns"].cast("float64").fill_null(np.nan).to_numpy()
    key, version = (rows[name].fill_null(-1).to_numpy() for name in ("api_key", "api_version"))
    idle = rows["idle_wait"].fill_null(False).to_numpy()
    told = 0
    report = json.loads((analyzed[1] / "report.json").read_text())
    for api in (report["totals"], *report["apis"]):
        chosen = ~np.isnan(latency)
        if "api_key" in api:
            chosen &= (key == api["api_key"]) & (version == api["api_version"])
        for wait, some in (("service", latency[chosen & ~idle]), ("idle", latency[chosen & idle])):
            if not len(some):
                assert api[wait] is None
                continue
            exact = (len(some), some.sum(), some.min(), some.max(), round(some.mean()))
            assert (
                tuple(api[wait][name] for name in ("count", "sum_ns", "min_ns", "max_ns", "mean_ns")) == exact
            )
            for name, share in (("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99), ("p99_9_ns", 0.999)):
                nearest = np.quantile(some, share, method="inverted_cdf")
                assert api[wait][name] == pytest.approx(nearest, rel=0.004), (api.get("api_name"), name)
            told += 1
    assert told > 20


@pytest.mark.spark
def test_a_reader_that_goes_away_is_no_error() -> None:
    run = subprocess.Popen(
        [*COMMAND, "analyze", "--quiet", CAPTURE],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
    )  # fmt: skip
    assert run.stdout
    assert run.stderr
    run.stdout.close()
    assert run.wait(timeout=250) == 0
    assert run.stderr.read() == b""
    run.stderr.close()


@pytest.mark.spark
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("moment", ["starting", "working"])
def test_interrupts_end_everything(number: signal.Signals, code: int, moment: str, tmp_path: Path) -> None:
    run = subprocess.Popen(
        [*COMMAND, "analyze", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(TMPDIR=str(tmp_path)),
        # Whoever runs the tests may ignore the signal.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    assert run.stdin
    assert run.stderr
    if moment == "working":
        run.stdin.write(CAPTURE.read_bytes())
        run.stdin.close()
        assert b"pcapng" in run.stderr.readline()
    else:
        run.stdin.write(PCAP)
        run.stdin.flush()
        while not list(tmp_path.glob("kdissect-*/spool-*")) and run.poll() is None:
            time.sleep(0.01)
    run.send_signal(number)
    assert run.wait(timeout=60) == code
    assert b"Traceback" not in run.stderr.read()
    run.stderr.close()
    if not run.stdin.closed:
        run.stdin.close()


def assert_one_sentence(text: str) -> None:
    assert text.startswith("kdissect")
    assert text.count("\n") == 1
    assert "Traceback" not in text
    assert "Exception" not in text
