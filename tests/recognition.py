"""Recognition of Kafka in many captures: a check against traffic that nobody made up for it.

    python -m tests.recognition FOLDER ...

reads every capture below the folders (the test captures of other network tools are a good choice, since they
hold most protocols that there are) and prints those with Kafka in them, how many connections and exchanges,
and the sums.
"""

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kdissect.capture.formats.file_types import InputError
from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.capture.scan import scan_split
from kdissect.files import ScratchDirectory
from kdissect.jit.rows import array_of
from kdissect.protocol.schema.registry import highest_versions
from kdissect.streams.flow_state import KAFKA, KAFKA_0_7
from kdissect.streams.tls.decrypt_stage import new_flow_processor
from kdissect.tables.build import by_split


class Seen(NamedTuple):
    """How much of a capture there is, and how much of that was taken for Kafka."""

    connections: int
    kafka: int
    exchanges: int


def look(path: Path) -> Seen:
    """Dissect one capture. Raise InputError for what is none."""
    scratch = ScratchDirectory()
    try:
        splits = index_captures(open_inputs([str(path)], str(scratch.path)).files).splits
        conversations = new_flow_processor(splits, np.array(highest_versions(), np.int64))
        exchanges = sum(
            len(harvest.exchanges)
            for pieces in by_split(scan_split(split) for split in splits)
            for harvest in conversations.feed(pieces)
        )
        exchanges += sum(len(harvest.exchanges) for harvest in conversations.close())
        protocols = np.concatenate(
            [array_of(state.connections)["protocol"][:count] for state, count in conversations.states()]
        )
        return Seen(len(protocols), int(np.isin(protocols, (KAFKA, KAFKA_0_7)).sum()), exchanges)
    finally:
        scratch.end()


def main() -> None:
    """Read all, and print what was found."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    seen: list[Seen] = []
    for path in sorted(
        path for folder in asked.parse_args().folders for path in folder.rglob("*") if path.is_file()
    ):
        try:
            seen.append(look(path))
        except InputError:
            continue
        if seen[-1].kafka:
            print(
                f"{path}: {seen[-1].kafka} of {seen[-1].connections:,} connections, "
                f"{seen[-1].exchanges:,} exchanges"
            )
    with_kafka = sum(each.kafka > 0 for each in seen)
    print(
        f"{len(seen):,} captures, {sum(each.connections for each in seen):,} connections; Kafka in "
        f"{with_kafka}"
    )


if __name__ == "__main__":
    main()
