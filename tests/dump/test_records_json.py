"""Batches as text against the object, over fields that are whole, of several batches, cut and damaged."""

from random import Random

import pytest

from kdissect.dump.jsonl import encode
from kdissect.dump.records_json import records_text
from kdissect.exchanges.describe_records import describe_records
from tests.helpers.kafka_python_records import FORMATS, record_set

ROUNDS = 60


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_the_text_is_that_of_the_object(magic: int, codec: int) -> None:
    rng = Random(8 * magic + codec)
    for _ in range(ROUNDS):
        fields = [(magic, codec), *rng.sample(FORMATS, rng.randrange(2))]
        data = bytearray(b"".join(record_set(*one) for one in fields))
        for _ in range(rng.choice((0, 0, 1, 3))):
            data[rng.randrange(min(len(data), 70))] ^= 1 << rng.randrange(8)
        field = bytes(data[: rng.choice((len(data), len(data), rng.randrange(len(data))))])
        assert records_text(field, encode) == encode(describe_records(field, False))


def test_batches_of_today_are_not_described_first() -> None:
    field = record_set(2, 0) + record_set(2, 4)
    assert records_text(field, lambda _tree: "described").startswith('{"bytes":')
    assert records_text(field[:-1], lambda _tree: '"rest"').endswith(',"rest"]}')
    assert records_text(b"", lambda _tree: "described") == '{"bytes":0,"batches":[]}'
    assert records_text(record_set(1, 0), lambda _tree: "described") == "described"
