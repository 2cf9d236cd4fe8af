"""The benchmark's own judgement: what the light version fails on, what the page reckons, and what of a run
that was stopped stays."""

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kdissect.capture.formats.pcap import HEADER_BYTES as PCAP_HEADER
from tests.bench import bench, other_commands, page, synthesis
from tests.bench.light import verdict
from tests.bench.measure import run
from tests.bench.sizing import lasting, sizing
from tests.helpers.handmade_capture import write_capture

ROW = {
    "bytes": 60_000_000,
    "capture": "x",
    "seconds": {"kdissect": 5.0, "tshark": 15.0},
    "times_as_fast": 3.0,
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


def test_processor_time_counts_processes_that_outlive_the_command() -> None:
    busy = "import time\nwhile time.process_time() < 0.3: pass"
    orphan = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {busy!r}])"
    found = run([sys.executable, "-c", orphan])
    assert found.processor_seconds >= 0.3


def test_processor_time_counts_processes_that_their_parent_ignores() -> None:
    busy = "import time\nwhile time.process_time() < 0.8: pass\ntime.sleep(0.5)"
    careless = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        f"child = subprocess.Popen([sys.executable, '-c', {busy!r}])\n"
        "while child.poll() is None: time.sleep(0.1)"
    )
    assert run([sys.executable, "-c", careless]).processor_seconds >= 0.8


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
        "--table",
        "all",
        str(tmp_path / "chatty.pcap"),
        "--out",
        exported,
        "--quiet",
    ]


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
