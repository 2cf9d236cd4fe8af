"""The benchmark's own judgement: what the light version fails on, what the page reckons, and what of a run
that was stopped stays."""

import json
import os
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kdissect.capture.formats.pcap import HEADER_BYTES as PCAP_HEADER
from tests.bench import bench, goals, measure, other_commands, page, synthesis
from tests.bench.capture_set import CAPTURES, CaptureSet
from tests.bench.control_group import control_group
from tests.bench.light import verdict
from tests.bench.measure import CommandFailed, run
from tests.bench.record_bulk import record_again
from tests.bench.sizing import lasting, sizing
from tests.helpers.handmade_capture import write_capture
from tests.lab.capture import LostPackets

ROW = {
    "bytes": 60_000_000,
    "capture": "x",
    "seconds": {"kdissect": 5.0, "tshark": 15.0},
    "times_as_fast": 3.0,
}


FACTS = {
    "commit": "a",
    "processor": "p",
    "python": "3",
    "tshark": "t",
    "load_before": 0.0,
}
STARTED = {"warm_seconds": 1.7, "first_line_seconds": 0.1, "first_run_seconds": 5.0, "processor_seconds": 2.0}
COMPARED = {
    "capture": "chatty",
    "told": "small",
    "bytes": 400_000_000,
    "seconds": {"kdissect": 4.0, "tshark": 50.0, "cat": 0.1},
    "processor_seconds": {"kdissect": 8.0, "tshark": 50.0, "anchor": 0.2},
    "peak_mib": {"kdissect": 900, "tshark": 1700},
    "times_as_fast": 12.5,
}


def test_half_as_fast_as_recorded_is_too_slow() -> None:
    assert verdict(ROW, None)[1]
    assert verdict(ROW, {"times_as_fast": 6.0})[1]
    said, good = verdict(ROW, {"times_as_fast": 6.1})
    assert not good
    assert "3.00 times as fast; 6.10 is recorded" in said


def test_more_than_twice_as_much_processor_time_beside_the_anchor_is_too_much() -> None:
    row = ROW | {"times_the_anchor": 50.0}
    assert "50 times the processor time of the anchor" in verdict(row, None)[0]
    assert verdict(row, {"times_as_fast": 3.0})[1]
    assert verdict(row, {"times_as_fast": 3.0, "times_the_anchor": 25.0})[1]
    assert not verdict(row, {"times_as_fast": 3.0, "times_the_anchor": 24.9})[1]


def test_the_page_compares_processor_time_after_the_start_with_the_anchor() -> None:
    row = {"capture": "chatty", "processor_seconds": {"kdissect": 9.0, "tshark": 58.0, "anchor": 0.2}}
    text = "\n".join(page.beside_anchor([row], 4.0))
    assert "| chatty | 0.20 s | 5.0 s | 25 | 58.0 s |" in text
    assert list(page.beside_anchor([{"capture": "chatty"}], 4.0)) == []


@pytest.fixture(params=["group", "no group"])
def with_and_without_a_group(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Count with a control group where one can be made, and in the way that needs none."""
    if request.param == "no group":
        monkeypatch.setattr(measure, "control_group", nullcontext)


@pytest.mark.usefixtures("with_and_without_a_group")
def test_processor_time_counts_processes_that_outlive_the_command() -> None:
    busy = "import time\nwhile time.process_time() < 0.3: pass"
    orphan = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {busy!r}])"
    found = run([sys.executable, "-c", orphan])
    assert found.processor_seconds >= 0.3


@pytest.mark.usefixtures("with_and_without_a_group")
def test_processor_time_counts_processes_that_their_parent_ignores() -> None:
    busy = "import time\nwhile time.process_time() < 0.8: pass\ntime.sleep(0.5)"
    careless = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        f"child = subprocess.Popen([sys.executable, '-c', {busy!r}])\n"
        "while child.poll() is None: time.sleep(0.1)"
    )
    assert run([sys.executable, "-c", careless]).processor_seconds >= 0.8


def test_processor_time_counts_a_process_that_nobody_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    with control_group() as group:
        if group is None:
            pytest.skip("no control group can be made here (cgroup v2, and a group to make it in)")
    monkeypatch.setattr(measure, "POLL_SECONDS", 60)
    busy = "import time\nwhile time.process_time() < 0.5: pass"
    careless = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        f"child = subprocess.Popen([sys.executable, '-c', {busy!r}])\n"
        "while child.poll() is None: time.sleep(0.1)"
    )
    assert run([sys.executable, "-c", careless]).processor_seconds >= 0.5


def test_a_command_chooses_its_own_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a first run with an empty cache would find those of this process, and make none."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/elsewhere")
    run([sys.executable, "-c", "import os, sys; sys.exit('NUMBA_CACHE_DIR' in os.environ)"])


@pytest.mark.usefixtures("with_and_without_a_group")
def test_a_command_that_fails_says_why() -> None:
    with pytest.raises(CommandFailed, match="failed: no such day"):
        run([sys.executable, "-c", "raise SystemExit('no such day')"])


def test_other_commands_are_shown_beside_their_goals(tmp_path: Path) -> None:
    lines = other_commands.command_lines(tmp_path / "chatty.pcap", tmp_path)
    numbers = {name: float(number) for number, name in enumerate(lines, 5)}
    row = {"capture": "chatty", "told": "small", "peak_mib": numbers}
    text = "\n".join(other_commands.page(row | {"seconds": numbers, "processor_seconds": numbers}))
    assert "| `analyze` | 5.0 |  | 5.0 | 5 MiB |" in text
    assert "| `analyze --topic` | 8.0 | 5.0 | 8.0 | 8 MiB |" in text
    assert "| `export --table all` | 10.0 | 6.0 | 10.0 | 10 MiB |" in text
    exported = str(tmp_path / "exported" / "tables")
    assert lines["export --table all"][4:] == [
        "export",
        "--quiet",
        "--table",
        "all",
        str(tmp_path / "chatty.pcap"),
        "--out",
        exported,
    ]


def test_memory_is_told_by_process() -> None:
    holder = "import time; held = bytearray(64 << 20); time.sleep(0.6)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {holder!r}])"
    taken = run([sys.executable, "-c", parent], all_memory=True)
    (_name, largest), *others = taken.parts_mib
    assert largest >= 64 > sum(size for _, size in others)
    assert sum(size for _, size in taken.parts_mib) <= taken.peak_mib


def test_memory_of_one_process_is_known_without_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "pss_kib", lambda _: pytest.fail("somebody looked"))
    least = measure.resident_kib(os.getpid()) // 1024 + 200
    taken = run([sys.executable, "-c", f"held = b'1' * ({least} << 20)"])
    assert least <= taken.peak_mib < least + 200
    assert taken.parts_mib == ()


def test_what_is_timed_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run in turns. Memory of those with several processes is that of a last run of theirs."""
    asked: list[tuple[str, bool]] = []

    def measured(command: list[str], all_memory: bool = False) -> measure.Run:
        asked.append((command[0], all_memory))
        return measure.Run(seconds=len(asked), peak_mib=500 if all_memory else 100)

    monkeypatch.setattr(bench, "run", measured)
    commands = {"kdissect": (["ours"], 2), "tshark": (["theirs"], 1)}
    row = bench.medians("chatty", commands, Path(__file__), ["kdissect"])
    assert asked == [("ours", False), ("theirs", False), ("ours", False), ("ours", True)]
    assert row["seconds"] == {"kdissect": 2, "tshark": 2}
    assert row["peak_mib"] == {"kdissect": 500, "tshark": 100}


def test_sizes_of_clusters_are_reckoned_from_the_largest_measured() -> None:
    found = {
        "cpus": 2,
        "start": {"warm_seconds": 4.0},
        "sizes": [
            {"capture": "1-gb", "bytes": 10**9, "seconds": {"kdissect": 9.0}, "peak_mib": {"kdissect": 900}},
            {
                "capture": "4-gb",
                "bytes": 4 * 10**9,
                "seconds": {"kdissect": 12.0},
                "peak_mib": {"kdissect": 1000},
            },
        ],
        "captures": [],
        "shapes": [],
        "stages": [{"capture": "chatty", "bytes": 10**9, "descriptor_bytes": 10**8}],
    }
    text = "\n".join(sizing(found))
    assert (
        "| chatty | 4.00 | 25 s, reading 4.0 GB/s | 62 s, reading 16.0 GB/s | 3 min, reading 64.0 GB/s |"
        in text
    )
    assert "extrapolated" in text
    assert "500 MiB for each core" in text
    assert "10.0% of the bytes of chatty" in text
    assert list(sizing({**found, "sizes": []})) == []


def test_times_are_written_for_people() -> None:
    assert [lasting(one) for one in (5.4, 119, 600)] == ["5 s", "119 s", "10 min"]


def test_a_benchmark_that_was_stopped_goes_on_behind_what_it_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = {"commit": "a", "processor": "p", "python": "3", "tshark": "t"}
    monkeypatch.setattr(bench, "facts", lambda: dict(facts))
    asked: list[str] = []

    def measuring(name: str) -> dict[str, Any]:
        asked.append(name)
        if asked == ["start", "bulk", "chatty"]:
            raise KeyboardInterrupt
        return {"capture": name, "turn": len(asked)}

    todo = [
        bench.Part("start", lambda: measuring("start")),
        *(bench.Part("captures", partial(measuring, name), name) for name in ("bulk", "chatty")),
    ]
    path = tmp_path / "bench.json"
    with pytest.raises(KeyboardInterrupt):
        bench.measured(path, todo, anew=False)
    bench.measured(path, todo, anew=False)
    assert asked == ["start", "bulk", "chatty", "chatty"]
    found = json.loads(path.read_text())
    assert found["captures"] == [{"capture": "chatty", "turn": 4}, {"capture": "bulk", "turn": 2}]
    assert list(found["took"]) == ["start", "captures bulk", "captures chatty"]
    facts["commit"] = "b"
    bench.measured(path, todo[:1], anew=False)
    assert json.loads(path.read_text())["captures"] == []


def test_a_part_that_fails_does_not_lose_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "facts", lambda: FACTS)
    failing = [sys.executable, "-c", "raise SystemExit('no such day')"]
    todo = [
        bench.Part("start", lambda: {"warm_seconds": run(failing).seconds}),
        bench.Part("captures", lambda: COMPARED, "chatty"),
        bench.Part("commands", lambda: {"capture": "chatty".index("b")}),
    ]
    path = tmp_path / "bench.json"
    assert not bench.measured(path, todo, anew=False)
    page.write(tmp_path)
    text = (tmp_path / "bench.md").read_text()
    assert "**Not measured: start.** CommandFailed: " in text
    assert "no such day." in text
    assert "**Not measured: commands.** ValueError: substring not found." in text
    assert "| chatty: whole process, times as fast as tshark | 12.5 | at least 12.0 | reached |" in text
    assert "| small capture | not measured | at most 1.60 s |  |" in text
    assert bench.measured(path, [bench.Part("start", lambda: STARTED), todo[1]], anew=False)
    page.write(tmp_path)
    assert "Not measured" not in (tmp_path / "bench.md").read_text()


def test_the_whole_benchmark_leaves_no_goal_without_a_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []

    def pretended(command: list[str], **_environment: str) -> measure.Run:
        ran.append(command)
        small = any(word.endswith("steady.pcapng") for word in command)
        return measure.Run(1.5 if small else 4.0 if "kdissect" in command else 60.0, 900, 0.1, 6.0)

    stages = {"bytes": 10**6, "exchanges": 1000, "seconds": {"pass one": 0.1}}
    monkeypatch.setattr(bench, "run", pretended)
    monkeypatch.setattr(bench, "COMPILE_SECONDS", 0)
    monkeypatch.setattr(bench, "facts", lambda: FACTS | {"cpus": 2})
    monkeypatch.setattr(bench, "timeline", lambda: {"capture": "small", "steps": []})
    monkeypatch.setattr(bench, "of_stages", lambda _captures, name: stages | {"capture": name})
    monkeypatch.setattr(bench, "of_machine", lambda _path: 1.9)
    monkeypatch.setattr("tests.bench.light.measured", lambda _folder, _native: ROW)
    monkeypatch.setattr("shutil.which", lambda _name: "/usr/bin/tshark")
    words = ["bench", "--quick", "--folder", str(tmp_path), "--anchor", "/bin/true"]
    monkeypatch.setattr(sys, "argv", words)
    assert bench.main() == 0
    text = (tmp_path / "quick" / "bench.md").read_text()
    assert "not measured" not in text.lower()
    assert "`python -m tests.bench.bench --folder DIR --anchor PROGRAM` makes" in text
    assert "| chatty: whole process, times as fast as tshark | 15.0 | at least 12.0 | reached |" in text
    assert "times a native program's | 0.0 | at most 8.0 | reached |" in text
    assert sum(command[0] == "tshark" for command in ran) == len(goals.AIMS)
    assert not (tmp_path / "quick" / "16-gb.pcap").exists()


def test_the_goals_are_judged_as_they_are_shown() -> None:
    single = {
        "capture": "single",
        "bytes": 2 * 10**9,
        "seconds": {"kdissect": 7.69},
        "peak_mib": {"kdissect": 955},
    }
    seconds = dict.fromkeys(other_commands.COMMANDS, 5.0) | {"analyze --topic": 5.06}
    found = {
        "start": STARTED,
        "captures": [COMPARED],
        "shapes": [single],
        "commands": {"seconds": seconds, "peak_mib": dict.fromkeys(seconds, 900)},
    }
    text = "\n".join(goals.table(found))
    assert "carries everything: each GB after the start | 3.0 s | at most 3.0 s | reached |" in text
    assert "without a filter | 5.1 s | at most 5.0 s | **not reached** |" in text
    assert "| chatty: processor time after the start, times a native program's | 30.0 | at most 8.0 |" in text
    assert "the highest of all captures and commands | 955 MiB | at most 954 MiB | **not reached** |" in text
    del found["captures"]
    assert "native" not in "\n".join(goals.table(found))


def test_a_quick_benchmark_makes_every_capture(tmp_path: Path) -> None:
    captures = CaptureSet(tmp_path, quick=True)
    for name in CAPTURES:
        assert 10_000 < captures.path(name).stat().st_size < 60_000_000
    assert captures.server_ports("single") == captures.server_ports("chatty")


def test_a_recording_that_lost_packets_is_made_again_at_half_the_rate() -> None:
    tried: list[int] = []

    def losing(per_second: int) -> None:
        tried.append(per_second)
        if len(tried) < 3:
            raise LostPackets("some")

    record_again(losing, 1000, 3)
    assert tried == [1000, 500, 250]
    tried.clear()
    with pytest.raises(LostPackets):
        record_again(losing, 1000, 2)


def test_clients_get_another_address_when_ports_are_used_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_capture(tmp_path / "one.pcap", [(True, b"request"), (False, b"response")])
    monkeypatch.setattr(synthesis, "FIRST_PORT", 50_000)
    monkeypatch.setattr(synthesis, "PORTS", 3)
    size = source.stat().st_size
    copy = size - PCAP_HEADER
    written = synthesis.synthesise("again", source, tmp_path / "many.pcap", PCAP_HEADER + 8 * copy, 0, 0)
    assert written == PCAP_HEADER + 8 * copy
    packets = synthesis.read_packets(tmp_path / "many.pcap")
    addresses = synthesis.big32(packets.data, packets.record + 30 + np.where(packets.to_server, 12, 16))
    clients = set(zip(addresses.tolist(), packets.client_port.tolist(), strict=True))
    assert len(clients) == 8
    assert len({address for address, _ in clients}) == 3
    assert np.all(np.diff(packets.time_ns) > 0)
