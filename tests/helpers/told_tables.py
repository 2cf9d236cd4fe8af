"""Tables on request that the messages of a story lead to."""

from pathlib import Path

import pyarrow as pa

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.spark import tasks
from kdissect.tables.build import dissect_batches
from tests.helpers.told_capture import Story


def told_table(story: Story, folder: Path, name: str) -> pa.Table:
    """Return the rows of a table that the messages of a story lead to."""
    seen = index_captures(open_inputs([story.write(folder / "story.pcap")], "").files, 1 << 30)
    pieces = list(tasks.scan_step([pa.record_batch({"split": [0]})], seen.splits, ()))
    batches = dissect_batches(pieces, seen.splits, wanted=(name,))
    return pa.Table.from_batches([tables[name] for tables in batches if name in tables])
