"""The captures of the benchmark: three are recorded of real clients and brokers, the others repeat them.

Recording needs root, tcpdump, Java and Maven. Copies get new ports and times (`synthesis`). A part is small
enough for tcpdump to keep up, and repeated to the size that the others are compared at.
"""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.capture.scan import scan_split
from tests.bench.commands import REPOSITORY
from tests.bench.synthesis import synthesise

GIGABYTE = 10**9


@dataclass(frozen=True)
class Source:
    """A capture of the benchmark: recorded by a module, or repeated from another one."""

    told: str
    recorder: str = ""
    repeats: str = ""
    how: str = "again"
    size: int = 0


CAPTURES = {
    "chatty": Source("6 clients with one small request in flight each, 1,000,000 exchanges", "record_chatty"),
    "chatty-5m": Source("the same five times, 5,000,000 exchanges", repeats="chatty", size=1_900_000_000),
    "mixed-part": Source("four client libraries, all codecs, groups, three brokers", "record_mixed"),
    "mixed": Source(
        "four client libraries, all codecs, groups, repeated", repeats="mixed-part", size=4 * GIGABYTE
    ),
    "bulk-part": Source("few exchanges, batches of about 1 MB", "record_bulk"),
    "bulk": Source("few exchanges, batches of about 1 MB, repeated", repeats="bulk-part", size=4 * GIGABYTE),
    "1-gb": Source("chatty, repeated", repeats="chatty", size=GIGABYTE),
    "4-gb": Source("chatty, repeated", repeats="chatty", size=4 * GIGABYTE),
    "16-gb": Source("chatty, repeated", repeats="chatty", size=16 * GIGABYTE),
    "single": Source(
        "one connection that carries everything", repeats="chatty", how="single", size=2 * GIGABYTE
    ),
    "many": Source("100,000 connections, all open at once", repeats="chatty", how="many", size=GIGABYTE),
}


MANY_CONNECTIONS = 100_000
EXCHANGES_OF_EACH = 10  # of many connections, about
QUICK_DIVISOR = 400
STAND_IN = REPOSITORY / "captures" / "steady.pcapng"


@dataclass(frozen=True)
class CaptureSet:
    """The captures below a folder; what is not there is made when it is first asked for.

    In a quick set all are a four-hundredth as large, and a small real capture stands in for recorded ones.
    """

    folder: Path
    quick: bool = False

    def path(self, name: str) -> Path:
        """Return a capture; make it if it is not there."""
        path, source = self.folder / f"{name}.pcap", CAPTURES[name]
        if path.exists():
            return path
        print(f"making {path.name}: {source.told}", flush=True)
        if source.recorder and self.quick:
            command = ["editcap", "--discard-all-secrets", "-F", "pcap", str(STAND_IN), str(path)]
            subprocess.run(command, check=True)
        elif source.recorder:
            command = [sys.executable, "-m", f"tests.bench.{source.recorder}", str(path.resolve())]
            subprocess.run(command, check=True, cwd=REPOSITORY, stdout=subprocess.DEVNULL)
        else:
            divisor = QUICK_DIVISOR if self.quick else 1
            synthesise(
                source.how,
                self.path(source.repeats),
                path,
                source.size // divisor,
                MANY_CONNECTIONS // divisor,
                EXCHANGES_OF_EACH,
            )
        return path

    def server_ports(self, name: str) -> list[int]:
        """Return the ports that servers use in a capture.

        That is the lower port of each connection in the first part of the recorded capture: copies have
        client ports below their servers'.
        """
        while CAPTURES[name].repeats:
            name = CAPTURES[name].repeats
        split = index_captures(open_inputs([str(self.path(name))], ".").files).splits[0]
        pieces = scan_split(split).to_pylist()
        return sorted({min(row["a_port"], row["b_port"]) for row in pieces if row["piece"] >= 0})
