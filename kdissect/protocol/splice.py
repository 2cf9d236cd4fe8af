"""Replace values in a captured frame and leave every other byte as it was captured.

`find` gives the spans of all values of some roles; `splice` puts other values in their place. What has to follow does:
the lengths of bytes and the sizes of tagged fields around a value, and the CRC-32C of a record batch, which is
patched from the batch's header alone: a wrong checksum stays wrong. Nothing else changes, not even what a
re-encoding would tidy up, such as a length written longer than need be or a tagged field that nobody knows.

Frames are without their 4-byte length, as everywhere in this package; of the result that is its `len`.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.body import (
    Fault,
    fault_of,
    left_over,
)
from kdissect.protocol.codec.messages import decode_request
from kdissect.protocol.codec.wire import (
    FIXED,
    SIZED,
    DecodeError,
    fixed_writer,
    sized_writer,
    write_uvarint,
)
from kdissect.protocol.records.crc32c import COVERED_OFFSET, CRC_OFFSET
from kdissect.protocol.records.crc32c_patch import patched_crc32c
from kdissect.protocol.records.summary import BATCH_HEADER
from kdissect.protocol.schema.registry import (
    APIS,
    MESSAGES,
    is_known,
    response_header_version,
)
from kdissect.protocol.spans import (
    Asked,
    Batch,
    Enclosure,
    Enclosures,
    Span,
    locator,
    request_inside,
    response_in_envelope,
    whole,
)

__all__ = ["Asked", "Edit", "Found", "Span", "enveloped_request", "find", "splice"]

Edit = tuple[Span, Any]  # a span and its new value, of the type that the codec has for it
_CRC, _COVERED = CRC_OFFSET[2], COVERED_OFFSET[2]


class Found(NamedTuple):
    """The values that were found, in wire order, and where the bytes stopped making sense, if they did."""

    spans: tuple[Span, ...]
    fault: Fault | None


def find(
    frame: bytes,
    key: int,
    version: int,
    response: bool,
    roles: Iterable[str],
    enveloped: Asked | None = None,
) -> Found:
    """Find all values of these roles in header and body; null counts as a value.

    Besides the roles of the schema there is `base_sequence`, which only record batches have. Of the response to an
    Envelope only the request tells what is in it: `enveloped` is what `enveloped_request` says of that one.
    """
    wanted, found = frozenset(roles), list[Span]()
    if not is_known(key, version):
        return Found((), Fault("", 0, f"no version {version} of API key {key} is known"))
    try:
        at = whole((key, version), response, wanted, frame, 0, len(frame), found, ())
    except DecodeError as wrong:
        return Found(tuple(found), fault_of(wrong))
    if key == ApiKey.ENVELOPE and response and enveloped:
        header = locator(MESSAGES["ResponseHeader"], response_header_version(key, version), frozenset())
        response_in_envelope(enveloped, wanted, frame, header(frame, 0, len(frame), [], ()), found)
        found.sort(key=lambda span: span.start)
    message = APIS[key].response if response else APIS[key].request
    return Found(tuple(found), left_over(message, version, frame, at))


def enveloped_request(frame: bytes) -> Asked | None:
    """Tell API key and version of the request inside an Envelope's request; None when it holds none that is known."""
    data = (decode_request(frame).body or {}).get("request_data") or b""
    return request_inside(data, 0, len(data))


def splice(frame: bytes, edits: Iterable[Edit]) -> bytes:
    """Give the frame with new values in the place of spans that `find` found in it.

    Raises struct.error for a number that does not fit its field, KeyError and TypeError for values of another kind.
    """
    new: dict[tuple[int, int], bytes] = {}  # (start, stop) -> what stands there from now on
    grown: dict[Enclosures, int] = defaultdict(int)  # chain of lengths -> bytes more within the innermost
    batches: set[Batch] = set()
    for span, value in edits:
        if value == span.value and type(value) is type(span.value):
            continue
        encoded = _encoded(span, value)
        new[span.start, span.stop] = encoded
        grown[span.enclosures] += len(encoded) - (span.stop - span.start)
        if span.batch:
            batches.add(span.batch)
    for batch in batches:
        new[batch.start + _CRC, batch.start + _COVERED] = _checksum(frame, batch, new)
    _grow(grown, new)
    return _replaced(frame, new)


def _encoded(span: Span, value: Any) -> bytes:
    out = bytearray()
    write = fixed_writer(span.type) if span.type in FIXED else sized_writer(span.type, span.flexible)
    write(out, value)
    return bytes(out)


def _checksum(frame: bytes, batch: Batch, new: dict[tuple[int, int], bytes]) -> bytes:
    """Compute the checksum of a batch whose header is edited; values in it are of fixed size."""
    covered, stop = batch.start + _COVERED, batch.start + BATCH_HEADER
    before = frame[covered:stop]
    after = bytearray(before)
    for (start, end), encoded in new.items():
        if covered <= start and end <= stop:
            after[start - covered : end - covered] = encoded
    old = int.from_bytes(frame[batch.start + _CRC : covered], "big")
    return patched_crc32c(old, before, bytes(after), batch.stop - stop).to_bytes(4, "big")


def _grow(grown: dict[Enclosures, int], new: dict[tuple[int, int], bytes]) -> None:
    """Write new lengths, from the innermost out: a length may itself become longer."""
    for chain in sorted(_chains(grown), key=len, reverse=True):
        more = grown[chain]
        if not more:
            continue
        length = chain[-1]
        written = _length(length, length.end - length.stop + more)
        new[length.start, length.stop] = written
        grown[chain[:-1]] += more + len(written) - (length.stop - length.start)


def _chains(grown: dict[Enclosures, int]) -> set[Enclosures]:
    return {chain[:depth] for chain in grown for depth in range(1, len(chain) + 1)}


def _length(length: Enclosure, size: int) -> bytes:
    out = bytearray()
    if length.type is None:
        write_uvarint(out, size)
    else:
        SIZED[length.type][length.flexible].write(out, size)
    return bytes(out)


def _replaced(frame: bytes, new: dict[tuple[int, int], bytes]) -> bytes:
    pieces, at = [], 0
    for (start, stop), encoded in sorted(new.items()):
        pieces += [frame[at:start], encoded]
        at = stop
    return b"".join([*pieces, frame[at:]])
