"""The cases that a target begins with: its seeds, and the small corpus that is kept for it.

`corpus/NAME/` has inputs that reached code which no seed reaches. `distil` chose them; the files are those of
`case.to_bytes`.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

from tests.fuzz import captures, commands, seeds, streams, tls
from tests.fuzz.case import Case, from_bytes

KEPT = Path(__file__).with_name("corpus")


@cache
def frames() -> list[Case]:
    """Return frames of every API, captured ones and random ones."""
    return [*seeds.captured(), *seeds.invented(Random(0))]


SEEDS: dict[str, Callable[[], list[Case]]] = {
    "records": seeds.record_fields,
    "compression": seeds.compressed,
    "old": seeds.old,
    "embedded": lambda: seeds.embedded(Random(0)),
    "reader": captures.seeds,
    "tcp": streams.tcp_seeds,
    "framing": streams.framing_seeds,
    "capture": captures.seeds,
    "tls": tls.seeds,
    "command": commands.seeds,
}
"""The seeds of a target; the others begin with frames."""


def kept(name: str) -> list[Case]:
    """Return the inputs that are kept for a target."""
    return [from_bytes(path.read_bytes()) for path in sorted((KEPT / name).glob("*.bin"))]


def corpus_of(name: str) -> list[Case]:
    """Return the cases that a target begins with."""
    return [*SEEDS.get(name, frames)(), *kept(name)]
