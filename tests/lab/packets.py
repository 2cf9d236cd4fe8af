"""Counts of tcpdump, which knows no Kafka, for a capture: packets and attempts to connect."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

_SYN = re.compile(r"IP6? (\S+) > (\S+): Flags \[S[^.\]]*\], seq (\d+)")
_SYN_ACK = re.compile(r"IP6? (\S+) > (\S+): Flags \[S[^\]]*\.\], seq \d+, ack (\d+)")


class Packets(NamedTuple):
    packets: int
    attempted: int  # different handshakes begun
    accepted: int  # of these, answered


def count(capture: Path) -> Packets:
    """Read `capture` with tcpdump and count."""
    command = ["tcpdump", "-n", "-S", "-r", str(capture)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    begun = {(found[1], found[2], int(found[3])) for line in lines if (found := _SYN.search(line))}
    answered = {
        (found[2], found[1], (int(found[3]) - 1) % 2**32)
        for line in lines
        if (found := _SYN_ACK.search(line))
    }
    return Packets(len(lines), len(begun), len(begun & answered))
