"""Steps of commands before their own work: captures that give nothing, and the start of Spark."""

import json
import struct
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kdissect.cli.context import reason_for_no_report
from kdissect.startup_switch import STARTUP_VARIABLE
from tests.helpers.command import assert_one_sentence, environment, kdissect
from tests.helpers.command_here import kdissect_here

ROOT = Path(__file__).parents[2]


CAPTURE = ROOT / "captures" / "cluster-life.pcapng"


PCAP = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)


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
    "no TCP": (PCAP + UDP, "holds no TCP packets (1 packet of other kinds)"),
    "a snap length of 64": (
        PCAP + b"".join(record(frame, kept=64) for frame in REQUESTS),
        (
            "1 TCP connection 95.2% of the payload is cut off (a snap length of 128 keeps the headers of "
            "requests)"
        ),
    ),
    "no Kafka": (PCAP + HTTP, "holds no Kafka traffic (1 TCP connection of other protocols)"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BAD_CAPTURES)
def test_a_capture_that_gives_nothing_is_one_sentence(name: str, tmp_path: Path) -> None:
    contents, words = BAD_CAPTURES[name]
    path = tmp_path / "some.pcap"
    path.write_bytes(contents)
    done = kdissect_here("analyze", "--quiet", path)
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
    done = kdissect_here("analyze", "--quiet", tmp_path)
    assert done.returncode == 2
    assert "no packet captures in this directory" in done.stderr


@pytest.mark.slow
def test_a_capture_that_is_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "cut.pcapng"
    path.write_bytes(CAPTURE.read_bytes()[:599_983])
    done = kdissect_here("analyze", "--quiet", "--format", "json", path)
    assert done.returncode == 0, done.stderr
    assert "the file ends within a record" in done.stderr
    assert_one_sentence(done.stderr)
    report = json.loads(done.stdout)
    assert report["totals"]["exchanges"] > 100
    assert report["capture"]["warnings"]


def test_the_jvm_starts_before_anything_large_is_loaded() -> None:
    stopped = "import sys, kdissect.spark.session as s\ns.Engine.start = lambda *_: sys.exit()\n"
    arguments = "['analyze', '--master', 'local[2]', sys.argv[1]]"
    seen = f"import kdissect.cli as c\ntry: c.main({arguments})\nexcept SystemExit: pass\n"
    loaded = "print({'pyspark', 'numba', 'numpy', 'pyarrow'} & set(sys.modules))"
    done = subprocess.run(
        [
            sys.executable,
            "-P",
            "-c",
            stopped + seen + loaded,
            str(Path(__file__).parents[2] / "captures" / "steady.pcapng"),
        ],
        capture_output=True,
        text=True,
        env=environment(),
        check=True,
    )
    assert done.stdout == "set()\n"


def test_java_that_is_too_old_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from kdissect.cli import main
    from kdissect.spark import in_process, session

    for module, shortcuts in ((session, ""), (in_process, "+in_process")):
        monkeypatch.setenv(STARTUP_VARIABLE, shortcuts)
        monkeypatch.setattr(module, "find_java", lambda: java_of({"PATH": ""}))
        assert main(["analyze", str(CAPTURE)]) == 2
        assert "install Java 17 or newer" in capsys.readouterr().err


def java_of(variables: dict[str, str]) -> object:
    from kdissect.spark.startup.java import find_java

    return find_java(variables, ())


@pytest.mark.parametrize(
    ("encrypted", "connections", "words"),
    [
        (1, 5, "1 of 5 TCP connections is TLS"),
        (1, 1, "1 of 1 TCP connection is TLS"),
        (2, 5, "2 of 5 TCP connections are TLS"),
    ],
)
def test_encrypted_connections_are_counted(encrypted: int, connections: int, words: str) -> None:
    index: Any = SimpleNamespace(files=[SimpleNamespace(file=SimpleNamespace(name="a.pcap"))])
    counts = SimpleNamespace(tcp=9)
    assert words in reason_for_no_report(index, counts, connections, 0, (), encrypted)
