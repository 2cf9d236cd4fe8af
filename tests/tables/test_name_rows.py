"""Names and addresses for filters: the same rows as those of all tables, from fewer messages."""

from pathlib import Path

import pyarrow as pa
import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import CaptureFile
from kdissect.protocol.api_keys import ApiKey
from kdissect.spark import tasks
from kdissect.streams.flow_state import REQUEST_SIDE, RESPONSE_SIDE
from kdissect.tables.build import dissect_batches
from kdissect.tables.name_rows import name_batches, telling_messages

CAPTURES = Path(__file__).parents[2] / "captures"


@pytest.mark.parametrize("name", ["cluster-life.pcapng", "refusals.pcapng", "tls.pcapng"])
@pytest.mark.parametrize("split_bytes", [1 << 26, 60_000])
def test_names_and_brokers_are_those_of_all_tables(name: str, split_bytes: int) -> None:
    splits = index_captures([CaptureFile(str(CAPTURES / name), name)], split_bytes).splits
    ordinals = [pa.record_batch({"split": [split.index for split in splits]})]
    pieces = list(tasks.scan_step(ordinals, splits, ()))
    alone, of_all = (
        {
            table: {tuple(row.values()) for batch in batches for row in batch.get(table, none).to_pylist()}
            for table in ("names", "brokers")
        }
        for none in [pa.table({})]
        for batches in (list(name_batches(pieces, splits)), list(dissect_batches(pieces, splits)))
    )
    assert alone == of_all
    assert alone["names"]


def test_few_apis_tell_names() -> None:
    responses, requests = telling_messages(RESPONSE_SIDE), telling_messages(REQUEST_SIDE)
    assert responses[ApiKey.METADATA].any()
    assert not responses[ApiKey.HEARTBEAT].any()
    assert not requests[ApiKey.PRODUCE].any()
    assert requests.sum() + responses.sum() < 400
