"""Where in a message the values of a role stand: the walk behind `splice`.

A message at one version and a set of roles is compiled, once, to closures that go over the bytes, note the wanted values
and pass over the rest. They go into what bytes hold inside: consumer-protocol messages, the principal and the request
in an Envelope, the headers of record batches. Bytes are checked as the codec checks them, with the same faults; what is
wrong with a message inside another is left alone.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from struct import Struct
from typing import Any, NamedTuple

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.decode import least_size, struct_reader
from kdissect.protocol.codec.wire import (
    FIXED,
    SIZED,
    DecodeError,
    Reader,
    count_length,
    fixed_reader,
    read_tag,
    read_tag_count,
    sized_reader,
)
from kdissect.protocol.error_codes import ErrorCode
from kdissect.protocol.records.summary import BATCH_HEADER, PREFIX
from kdissect.protocol.schema.definition import (
    Field,
    Message,
    fields_at,
)
from kdissect.protocol.schema.registry import (
    APIS,
    MESSAGES,
    is_known,
    request_header_version,
    response_header_version,
)


class Enclosure(NamedTuple):
    """A length that counts bytes in which a span lies."""

    start: int  # where the length stands …
    stop: int  # … up to here, and what it counts begins
    end: int
    type: str | None  # a type of SIZED; None: the size of a tagged field
    flexible: bool


class Batch(NamedTuple):
    """A record batch whose header a span lies in."""

    start: int
    stop: int


class Span(NamedTuple):
    """One value: its bytes, with the length in front if it has one, are frame[start:stop]."""

    role: str
    start: int
    stop: int
    value: Any
    type: str  # as in the schema
    flexible: bool
    enclosures: tuple[Enclosure, ...]  # outermost first
    batch: Batch | None = None


Enclosures = tuple[Enclosure, ...]
Asked = tuple[int, int]  # API key and version of a request
Locator = Callable[[bytes, int, int, list[Span], Enclosures], int]

# Values in the header of a record batch: role, position, type. `base_sequence` is the name of the field; no message has it.
BATCH_VALUES = (
    ("leader_epoch", 12, "int32"),
    ("producer_id", 43, "int64"),
    ("producer_epoch", 51, "int16"),
    ("base_sequence", 53, "int32"),
)


@cache
def locator(message: Message, version: int, roles: frozenset[str]) -> Locator:
    """Compile the walk over a message in one version."""
    return _struct(message, version, version in message.flexible, roles)


def holds(owner: Message | Field, version: int, roles: frozenset[str]) -> bool:
    """Tell whether a message or a field can have a value of these roles."""
    if isinstance(owner, Field):
        if owner.role in roles:
            return True
        if owner.type == "records":
            return any(role in roles for role, _, _ in BATCH_VALUES)
        if owner.embedded:
            inner = MESSAGES[owner.embedded]
            return any(holds(inner, each, roles) for each in inner.versions)
        if owner.name == "request_data":
            return True
    return any(holds(field, version, roles) for field in fields_at(owner, version))


def _struct(owner: Message | Field, version: int, flexible: bool, roles: frozenset[str]) -> Locator:
    if not holds(owner, version, roles):
        return _passing(struct_reader(owner, version, flexible))
    fields = fields_at(owner, version)
    steps = [(field.name, _field(field, version, flexible, roles)) for field in fields if field.tag is None]
    tagged = {
        field.tag: (field.name, _field(field, version, True, roles))
        for field in fields
        if field.tag is not None
    }

    def locate(data: bytes, at: int, end: int, found: list[Span], around: Enclosures) -> int:
        for name, step in steps:
            try:
                at = step(data, at, end, found, around)
            except DecodeError as wrong:
                wrong.path.append(name)
                raise
        return _tags(tagged, data, at, end, found, around) if flexible else at

    return locate


def _tags(
    tagged: dict[int, tuple[str, Locator]],
    data: bytes,
    at: int,
    end: int,
    found: list[Span],
    around: Enclosures,
) -> int:
    count, at = read_tag_count(data, at, end)
    tag = -1
    for _ in range(count):
        tag, size_at, start, at = read_tag(data, at, end, tag)
        if tag in tagged:
            inside = (*around, Enclosure(size_at, start, at, None, True))
            _tagged_value(*tagged[tag], tag, data, start, at, found, inside)
    return at


def _tagged_value(
    name: str,
    locate: Locator,
    tag: int,
    data: bytes,
    at: int,
    stop: int,
    found: list[Span],
    around: Enclosures,
) -> None:
    try:
        end = locate(data, at, stop, found, around)
    except DecodeError as wrong:
        wrong.path.append(name)
        raise
    if end != stop:
        unfilled = DecodeError(at, f"tag {tag} has {stop - at} bytes, but its value {end - at}")
        unfilled.path.append(name)
        raise unfilled


def _field(field: Field, version: int, flexible: bool, roles: frozenset[str]) -> Locator:
    if field.type == "struct":
        one = _struct(field, version, flexible, roles)
        if version in field.nullable and not field.array:
            one = _optional(one)
        least = least_size(field, version, flexible)
    elif field.type in FIXED:
        one, least = (
            _value(field, fixed_reader(field.type), False, roles),
            Struct(f">{FIXED[field.type]}").size,
        )
    else:
        one, least = _sized(field, version, flexible, roles), SIZED[field.type][flexible].size
    return _array(one, least, flexible) if field.array else one


def _passing(read: Reader) -> Locator:
    return lambda data, at, end, _found, _around: int(read(data, at, end)[1])


def _value(field: Field, read: Reader, flexible: bool, roles: frozenset[str]) -> Locator:
    if field.role is None or field.role not in roles:
        return _passing(read)
    role, kind = field.role, field.type

    def locate(data: bytes, at: int, end: int, found: list[Span], around: Enclosures) -> int:
        value, stop = read(data, at, end)
        found.append(Span(role, at, stop, value, kind, flexible, around))
        return int(stop)

    return locate


def _sized(field: Field, version: int, flexible: bool, roles: frozenset[str]) -> Locator:
    inside = _inside(field, version, roles)
    if inside is None:
        return _value(field, sized_reader(field.type, flexible), flexible, roles)
    read_length, within = SIZED[field.type][flexible].read, inside

    def locate(data: bytes, at: int, end: int, found: list[Span], around: Enclosures) -> int:
        size, start = read_length(data, at, end)
        if size > end - start:
            raise DecodeError(at, f"length {size}, but {end - start} bytes left")
        if size < -1:
            raise DecodeError(at, f"negative length {size}")
        stop: int = start + max(size, 0)
        within(data, start, stop, found, (*around, Enclosure(at, start, stop, field.type, flexible)))
        return stop

    return locate


def _inside(field: Field, version: int, roles: frozenset[str]) -> Callable[..., Any] | None:
    """Give the walk into what these bytes hold, if it can hold something that is wanted."""
    if not holds(field, version, roles):
        return None
    if field.type == "records":
        wanted = [value for value in BATCH_VALUES if value[0] in roles]
        return (lambda *where: _batches(wanted, *where)) if wanted else None
    if field.embedded and any(
        holds(MESSAGES[field.embedded], each, roles) for each in MESSAGES[field.embedded].versions
    ):
        message = MESSAGES[field.embedded]
        return lambda *where: _embedded(message, roles, *where)
    if field.name == "request_data":
        return lambda *where: _request(roles, *where)
    return None


def _embedded(
    message: Message,
    roles: frozenset[str],
    data: bytes,
    at: int,
    end: int,
    found: list[Span],
    around: Enclosures,
) -> None:
    """Walk a message with its version in front; of a newer version than ours, as far as we know it."""
    version = min(int.from_bytes(data[at : min(at + 2, end)], "big", signed=True), message.versions[-1])
    if end - at < 2 or version < message.versions[0]:
        return
    inside: list[Span] = []
    try:
        locator(message, version, roles)(data, at + (2 if message.prefixed else 0), end, inside, around)
    except DecodeError:
        return  # not what it seems: another group protocol, which is left alone
    found += inside


def whole(
    asked: Asked,
    response: bool,
    roles: frozenset[str],
    data: bytes,
    at: int,
    end: int,
    found: list[Span],
    around: Enclosures,
) -> int:
    """Walk header and body of a known request, or of the response to it."""
    key, version = asked
    if response:
        header = locator(MESSAGES["ResponseHeader"], response_header_version(key, version), roles)
        at = header(data, at, end, found, around)
        if key == ApiKey.API_VERSIONS and data[
            at : min(at + 2, end)
        ] == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2):
            version = 0
        return locator(APIS[key].response, version, roles)(data, at, end, found, around)
    header = locator(MESSAGES["RequestHeader"], request_header_version(key, version), roles)
    at = header(data, at, end, found, around)
    return locator(APIS[key].request, version, roles)(data, at, end, found, around)


def request_inside(data: bytes, at: int, end: int) -> Asked | None:
    """Tell what an Envelope's request asks for; None when it is unknown, or another Envelope, which Kafka refuses."""
    key = int.from_bytes(data[at : min(at + 2, end)], "big", signed=True)
    version = int.from_bytes(data[at + 2 : min(at + 4, end)], "big", signed=True)
    return (key, version) if end - at >= 4 and is_known(key, version) and key != ApiKey.ENVELOPE else None


def _request(
    roles: frozenset[str], data: bytes, at: int, end: int, found: list[Span], around: Enclosures
) -> None:
    """Walk a whole request inside an Envelope (KIP-590)."""
    asked = request_inside(data, at, end)
    if asked:
        with suppress(DecodeError):  # what stands before the wrong bytes can be replaced all the same
            whole(asked, False, roles, data, at, end, found, around)


def response_in_envelope(
    asked: Asked, roles: frozenset[str], data: bytes, at: int, found: list[Span]
) -> None:
    """Walk a whole response inside the body of an Envelope's response at `at`, knowing what was asked."""
    with suppress(DecodeError):
        size, start = SIZED["bytes"][True].read(data, at, len(data))
        stop = start + size
        if size > 0 and stop <= len(data):
            around = (Enclosure(at, start, stop, "bytes", True),)
            whole(asked, True, roles, data, start, stop, found, around)


def _batches(
    wanted: list[tuple[str, int, str]], data: bytes, at: int, end: int, found: list[Span], around: Enclosures
) -> None:
    """Note values in the headers of whole batches; a batch that is cut is left alone, as every reader does."""
    while end - at >= BATCH_HEADER:
        length = int.from_bytes(data[at + 8 : at + PREFIX], "big", signed=True)
        stop = at + PREFIX + length
        if length < 14 or stop > end:
            return
        if data[at + 16] == 2 and stop - at >= BATCH_HEADER:
            for role, position, kind in wanted:
                start = at + position
                value, after = fixed_reader(kind)(data, start, stop)
                found.append(Span(role, start, after, value, kind, False, around, Batch(at, stop)))
        at = stop


def _optional(one: Locator) -> Locator:
    def locate(data: bytes, at: int, end: int, found: list[Span], around: Enclosures) -> int:
        if at >= end:
            raise DecodeError(at, "only 0 of 1 bytes")
        if data[at] not in (1, 0xFF):
            raise DecodeError(at, f"nullable struct marked {data[at]}, neither 1 nor 255")
        return one(data, at + 1, end, found, around) if data[at] == 1 else at + 1

    return locate


def _array(one: Locator, least: int, flexible: bool) -> Locator:
    read_count = count_length(flexible).read

    def locate(data: bytes, at: int, end: int, found: list[Span], around: Enclosures) -> int:
        count, start = read_count(data, at, end)
        if count < -1:
            raise DecodeError(at, f"negative count {count}")
        if count * least > end - start:
            raise DecodeError(at, f"{count} elements, but {end - start} bytes left")
        at = start
        for number in range(count):
            try:
                at = one(data, at, end, found, around)
            except DecodeError as wrong:
                wrong.path.append(f"[{number}]")
                raise
        return at

    return locate
