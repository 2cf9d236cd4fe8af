"""tcpdump is started with what was asked for, tells what was dropped, and ends with the watch."""

import os
import shutil
import stat
import time
from pathlib import Path

import pytest

from kdissect.errors import UsageError
from kdissect.live.tcpdump import Tcpdump, _arguments
from tests.lab.maven import need

FAKE = """#!/bin/sh
echo "$@" > "$0.arguments"
trap 'echo "9 packets captured, 9 packets received by filter, 4 packets dropped by kernel" >&2' USR1
trap 'exit 0' INT
echo "tcpdump: listening on eth7, link-type EN10MB" >&2
while :; do sleep 0.02; done
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "tcpdump"
    path.write_text(FAKE)
    path.chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return path


def test_dropped_packets_are_counted(fake: Path) -> None:
    tcpdump = Tcpdump("eth7", [9092], 128, 8 << 20)
    try:
        until = time.monotonic() + 10
        while not tcpdump.dropped() and time.monotonic() < until:
            time.sleep(0.05)
        assert tcpdump.dropped() == 4
    finally:
        tcpdump.close()
    assert "-i eth7" in Path(f"{fake}.arguments").read_text()
    assert "-s 128 -B 8192" in Path(f"{fake}.arguments").read_text()


def test_the_filter_names_ports_with_and_without_a_tag() -> None:
    assert _arguments("lo", [1, 2], 96, 1)[-1] == (
        "(tcp port 1 or tcp port 2) or (vlan and (tcp port 1 or tcp port 2))"
    )
    assert _arguments("lo", [], 96, 1)[-1] == "(tcp) or (vlan and (tcp))"


def test_packets_come_at_once_if_that_is_asked_for() -> None:
    assert "--immediate-mode" in _arguments("lo", [], 96, 1, immediate=True)
    assert "--immediate-mode" not in _arguments("lo", [], 96, 1)


@pytest.mark.slow
def test_the_real_tool_takes_the_arguments() -> None:
    need("tcpdump")
    if os.geteuid() != 0:
        pytest.skip("capturing needs root")
    for immediate in (False, True):
        Tcpdump("lo", [9092], 65_536, 8 << 20, immediate).close()


def test_missing_rights_are_one_sentence(fake: Path) -> None:
    fake.write_text('#!/bin/sh\necho "tcpdump: eth7: You don\'t have permission to capture" >&2\nexit 1\n')
    with pytest.raises(UsageError, match=r"cannot capture on eth7: .*permission.*needs root, or cap_net_raw"):
        Tcpdump("eth7", [], 96, 1 << 20)


def test_a_missing_tool_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(UsageError, match="needs tcpdump, which is not installed"):
        Tcpdump("eth7", [], 96, 1 << 20)
