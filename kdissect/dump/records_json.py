"""The batches of a records field straight to JSON.

In come the bytes of the field, out goes the text that an encoder makes of `describe_records`, without the
records. Batches of magic 2 are written here, which takes a quarter of the time. A field with older
messages, or with a time in its attributes, is described first. A test holds both ways together.
"""

from collections.abc import Callable
from functools import lru_cache
from json.encoder import encode_basestring_ascii as quote
from typing import Any

from kdissect.exchanges.describe_records import batch_attributes, describe_records, describe_rest
from kdissect.protocol.records.batches import (
    ATTRIBUTES_AT,
    DELETE_HORIZON,
    HEADER,
    PREFIX_BYTES,
    SMALLEST,
    BatchHeader,
    rest_of_field,
)
from kdissect.protocol.records.crc32c import crc32c

MAGIC, OLDER = 2, (0, 1)
ATTRIBUTES_KEPT = 1 << 8
_BATCH = ",".join(f'"{name}":%d' for name in BatchHeader._fields)
_AT = {name: place for place, name in enumerate(BatchHeader._fields)}
_LENGTH, _MAGIC, _CRC, _ATTRIBUTES = (_AT[name] for name in ("batch_length", "magic", "crc", "attributes"))


def records_text(data: bytes, encode: Callable[[Any], str]) -> str:
    """Return the JSON of the batches of a records field."""
    batches, start, end = [], 0, len(data)
    while end - start >= HEADER.size:
        header = HEADER.unpack_from(data, start)
        stop = start + PREFIX_BYTES + header[_LENGTH]
        if header[_MAGIC] != MAGIC or header[_LENGTH] < SMALLEST[MAGIC] or stop > end:
            break
        if header[_ATTRIBUTES] & DELETE_HORIZON:
            return encode(describe_records(data, False))
        crc = "" if crc32c(data[start + ATTRIBUTES_AT : stop]) == header[_CRC] else ',"_crc":"wrong"'
        batches.append(f"{{{_BATCH % header}{_attributes_text(header[_ATTRIBUTES])}{crc}}}")
        start = stop
    rest = rest_of_field(data, start)
    if rest is not None:
        if rest.magic in OLDER:
            return encode(describe_records(data, False))
        batches.append(encode(describe_rest(rest)))
    return f'{{"bytes":{end},"batches":[{",".join(batches)}]}}'


@lru_cache(ATTRIBUTES_KEPT)
def _attributes_text(attributes: int) -> str:
    return f',"_attributes":{quote(batch_attributes(attributes))}'
