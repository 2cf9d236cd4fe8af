"""Messages straight from bytes to JSON, by a Python function that is generated for each message and version.

In come the bytes of a frame, out goes the text that `jsonl` would make of its decoded and described tree. No
tree is made: a struct is one f-string over the values that were read. That takes a quarter of the time, and
such messages are nearly all of a capture.

Everything unusual is left to the plain way, which alone knows faults: bytes that are cut off or left over,
lengths that are wrong, tagged fields that were sent, bools that are neither 0 nor 1, frames that could hold
more elements than `limits` allow. So are messages with secrets, with messages inside bytes, and with metrics.
Generated code may therefore stop at anything by an exception. Tests hold both ways together on all messages,
whole, cut and damaged.
"""

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache, partial
from itertools import count, groupby
from json.encoder import encode_basestring_ascii
from math import isfinite
from struct import Struct, error
from typing import Any, TypeAlias

from kdissect import limits
from kdissect.dump.records_json import records_text
from kdissect.exchanges.describe import ENVELOPES, TELEMETRY, number_words
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.decode import least_size
from kdissect.protocol.codec.wire import COMPACT_LENGTH, FIXED, CodecError
from kdissect.protocol.redact import has_secrets_at
from kdissect.protocol.schema.definition import Field, Message, every_field, fields_at
from kdissect.protocol.schema.registry import (
    APIS,
    MESSAGES,
    is_known,
    request_header_version,
    response_header_version,
)
from kdissect.text import format_uuid

Encode: TypeAlias = Callable[[Any], str]
Write: TypeAlias = Callable[[bytes, Mapping[bytes, str]], str]
"""(frame, names of topics by id) -> the text of its header and its body."""

NOTES_KEPT = 1 << 12  # texts beside numbers, of one field
TEXTS_KEPT, LONGEST_KEPT = 1 << 12, 1 << 7  # texts as they are on the wire, and the bytes of one
WRITERS_KEPT = 1 << 11  # there are fewer; the others are versions that only broken clients name
INDENT = "    "
KEY_AND_VERSION = Struct(">hh")
PLAIN = frozenset({"bool", "float64"})  # arrays of these have no compiled writer


class UnusualError(Exception):
    """Bytes of a message that only the plain way can read."""


UNUSUAL = (UnusualError, CodecError, error, IndexError)


def request_text(frame: bytes, names: Mapping[bytes, str], encode: Encode) -> str | None:
    """Return the JSON of a request frame; None for one that is left to the plain way."""
    if not 4 <= len(frame) <= limits.ELEMENTS:
        return None
    key, version = KEY_AND_VERSION.unpack_from(frame)
    write = _request_writer(key, version, encode)
    return write and _message_text(frame, names, write)


def response_text(
    frame: bytes, key: int | None, version: int | None, names: Mapping[bytes, str], encode: Encode
) -> str | None:
    """Return the JSON of a response frame; None for one that is left to the plain way."""
    if key is None or version is None or len(frame) > limits.ELEMENTS:
        return None
    write = _response_writer(key, version, encode)
    return write and _message_text(frame, names, write)


def _message_text(frame: bytes, names: Mapping[bytes, str], write: Write) -> str | None:
    try:
        return write(frame, names)
    except UNUSUAL:
        return None


@lru_cache(WRITERS_KEPT)
def _request_writer(key: int, version: int, encode: Encode) -> Write | None:
    if not is_known(key, version):
        return None
    header = MESSAGES["RequestHeader"], request_header_version(key, version)
    return _writer(header, (APIS[key].request, version), encode)


@lru_cache(WRITERS_KEPT)
def _response_writer(key: int, version: int, encode: Encode) -> Write | None:
    if key == ApiKey.API_VERSIONS or not is_known(key, version):  # an error makes its body one of version 0
        return None
    header = MESSAGES["ResponseHeader"], response_header_version(key, version)
    return _writer(header, (APIS[key].response, version), encode)


def _writer(header: tuple[Message, int], body: tuple[Message, int], encode: Encode) -> Write | None:
    return _Generator(header, body, encode).write if is_compiled(*body) else None


@cache
def is_compiled(message: Message, version: int) -> bool:
    """Return whether a message has a compiled writer in one version."""
    if has_secrets_at(message, version) or message.name in ENVELOPES:
        return False
    fields = [field for _, field in every_field(message) if version in field.versions and field.tag is None]
    return not any(_is_plain(message, field, version) for field in fields)


def _is_plain(message: Message, field: Field, version: int) -> bool:
    """Return whether a field is of a kind that only the plain way writes."""
    if field.embedded or (message.name, field.name) == TELEMETRY:
        return True
    if not field.array:
        return False
    if field.type == "struct":
        return not least_size(field, version, version in message.flexible)
    return field.type in PLAIN or number_words(message, field) is not None


class _Notes(dict[int, str]):
    """The text behind each number of a field that has words: `,"_error_code":"NONE"`, or nothing."""

    def __init__(self, name: str, words: Callable[[int], str | None]) -> None:
        self._name, self._words = name, words

    def __missing__(self, number: int) -> str:
        word = self._words(number)
        text = "" if word is None else f',"_{self._name}":{encode_basestring_ascii(word)}'
        if len(self) < NOTES_KEPT:
            self[number] = text
        return text


class _Texts(dict[bytes, str]):
    """The JSON of texts as they are on the wire. Short ones are kept, since names come again and again."""

    def __missing__(self, raw: bytes) -> str:
        text = encode_basestring_ascii(raw.decode("utf-8", "surrogateescape"))
        if len(raw) <= LONGEST_KEPT:
            if len(self) >= TEXTS_KEPT:
                self.clear()
            self[raw] = text
        return text


_TEXTS = _Texts()


class _Generator:
    """The source of one writer. Its lines read values into variables; the text of a struct is an f-string.

    `d` are the bytes, `o` is the offset, `end` the end of the bytes, `names` the topics by id.
    """

    def __init__(self, header: tuple[Message, int], body: tuple[Message, int], encode: Encode) -> None:
        self._numbers = count()
        self._lines = ["def write(d, names):", f"{INDENT}o, end = 0, len(d)"]
        self._globals: dict[str, Any] = {
            "Unusual": UnusualError,
            "int16": Struct(">h").unpack_from,
            "int32": Struct(">i").unpack_from,
            "compact": COMPACT_LENGTH.read,
            "texts": _TEXTS,
            "b64": b64encode,
            "uuid_text": _uuid_text,
            "uuid_texts": _uuid_texts,
            "float_text": _float_text,
            "bools": ("false", "true"),
            "records_text": partial(records_text, encode=encode),
        }
        head, text = self._part(*header, described=False), self._part(*body, described=True)
        self._add(1, "if o != end: raise Unusual")
        self._add(1, f"""return f'{{{{"header":{head},"body":{text}}}}}'""")
        message, version = body
        source = compile("\n".join(self._lines), f"<{message.name} v{version}>", "exec")
        exec(source, self._globals)  # noqa: S102 - made of schemas, which are files of the package
        self.write: Write = self._globals["write"]

    def _part(self, message: Message, version: int, *, described: bool) -> str:
        """Add the lines that read a header or a body. Return its text as the inside of an f-string."""
        self._message, self._version, self._described = message, version, described
        self._flexible = version in message.flexible
        return self._struct(message, 1)

    def _add(self, depth: int, *lines: str) -> None:
        self._lines += [INDENT * depth + line for line in lines]

    def _new(self) -> str:
        return f"v{next(self._numbers)}"

    def _struct(self, owner: Message | Field, depth: int) -> str:
        """Add the lines that read a struct. Return its text as the inside of an f-string."""
        fields = [field for field in fields_at(owner, self._version) if field.tag is None]
        texts: list[str] = []
        for fixed, run in groupby(fields, key=lambda field: not field.array and field.type in FIXED):
            neighbours = list(run)
            texts += (
                self._fixed(neighbours, depth)
                if fixed
                else [self._field(field, depth) for field in neighbours]
            )
        if self._flexible:
            self._add(depth, "if d[o]: raise Unusual", "o += 1")
        return "{{" + ",".join(texts) + "}}"

    def _fixed(self, run: list[Field], depth: int) -> Iterator[str]:
        """Read neighbours of fixed size at once."""
        layout = Struct(">" + "".join(FIXED[field.type] for field in run))
        unpack, values = f"unpack{next(self._numbers)}", [self._new() for _ in run]
        self._globals[unpack] = layout.unpack_from
        self._add(depth, f"{', '.join(values)}, = {unpack}(d, o)", f"o += {layout.size}")
        for field, value in zip(run, values, strict=True):
            yield f'"{field.name}":' + self._fixed_text(field, value)

    def _fixed_text(self, field: Field, value: str) -> str:
        if field.type == "bool":
            return f"{{bools[{value}]}}"
        if field.type == "uuid":
            return f'{{uuid_text({value}, names, "{field.name}")}}'
        if field.type == "float64":
            return f'{{float_text({value}, "{field.name}")}}'
        words = number_words(self._message, field) if self._described else None
        if words is None:
            return f"{{{value}}}"
        notes = f"notes{next(self._numbers)}"
        self._globals[notes] = _Notes(field.name, words)
        return f"{{{value}}}{{{notes}[{value}]}}"

    def _field(self, field: Field, depth: int) -> str:
        name, value = f'"{field.name}":', self._new()
        if field.array:
            self._array(field, value, depth)
        elif field.type == "struct" and self._version in field.nullable:
            self._optional(field, value, depth)
        elif field.type == "struct":
            return name + self._struct(field, depth)
        else:
            self._sized(field, value, depth)
        return f"{name}{{{value}}}"

    def _optional(self, field: Field, value: str, depth: int) -> None:
        """Read a nullable struct: 255 for null, 1 if it follows (KIP-893)."""
        self._add(depth, f"{value} = d[o]", "o += 1", f"if {value} == 255: {value} = 'null'")
        self._add(depth, f"elif {value} != 1: raise Unusual", "else:")
        text = self._struct(field, depth + 1)
        self._add(depth + 1, f"{value} = f'{text}'")

    def _length(self, value: str, depth: int, compact: bool, fixed: str) -> None:
        """Read a length or a count, -1 for null."""
        if compact:
            self._add(depth, f"{value} = d[o] - 1", f"if {value} < 127: o += 1")
            self._add(depth, f"else: {value}, o = compact(d, o, end)")
        else:
            self._add(depth, f"{value}, = {fixed}(d, o)", f"o += {2 if fixed == 'int16' else 4}")

    def _sized(self, field: Field, value: str, depth: int) -> None:
        """Read a value with a length: text, bytes or records."""
        text = "string" in field.type
        compact = self._flexible and field.type != "int16_string"
        self._length(value, depth, compact, "int16" if text else "int32")
        self._add(depth, f"if {value} < 0:", f"{INDENT}if {value} != -1: raise Unusual")
        self._add(depth + 1, f"{value} = 'null'")
        self._add(depth, "else:", f"{INDENT}stop = o + {value}", f"{INDENT}if stop > end: raise Unusual")
        if text:
            self._add(depth + 1, f"{value} = texts[d[o:stop]]")
        elif field.type == "records":
            self._add(depth + 1, f"""{value} = 'null,"_{field.name}":' + records_text(d[o:stop])""")
        else:
            self._add(depth + 1, f"""{value} = f'"{{b64(d[o:stop]).decode()}}"'""")
        self._add(depth + 1, "o = stop")

    def _array(self, field: Field, value: str, depth: int) -> None:
        items = self._new()
        self._length(value, depth, self._flexible, "int32")
        self._add(depth, f"if {value} < 0:", f"{INDENT}if {value} != -1: raise Unusual")
        self._add(depth + 1, f"{value} = 'null'")
        self._add(depth, "else:")
        if field.type in FIXED:
            self._fixed_items(field, value, items, depth + 1)
            return
        self._add(depth + 1, f"{items} = []", f"for _ in range({value}):")
        if field.type == "struct":
            self._add(depth + 2, f"{items}.append(f'{self._struct(field, depth + 2)}')")
        else:
            item = self._new()
            self._sized(field, item, depth + 2)
            self._add(depth + 2, f"{items}.append({item})")
        self._add(depth + 1, f"{value} = '[' + ','.join({items}) + ']'")

    def _fixed_items(self, field: Field, value: str, items: str, depth: int) -> None:
        layout, unpack = Struct(f">{FIXED[field.type]}"), f"unpack{next(self._numbers)}"
        self._globals[unpack] = layout.iter_unpack
        self._add(depth, f"stop = o + {value} * {layout.size}", "if stop > end: raise Unusual")
        self._add(depth, f"{items} = [item for item, in {unpack}(d[o:stop])]", "o = stop")
        texts = f'uuid_texts({items}, names, "{field.name}")'
        plain = f"'[' + ','.join(map(str, {items})) + ']'"
        self._add(depth, f"{value} = {texts if field.type == 'uuid' else plain}")


_uuid_of = lru_cache(TEXTS_KEPT)(format_uuid)


def _uuid_text(raw: bytes, names: Mapping[bytes, str], field: str) -> str:
    topic = names.get(raw)
    note = "" if topic is None else f',"_{field}":{encode_basestring_ascii(topic)}'
    return f'"{_uuid_of(raw)}"{note}'


def _uuid_texts(raws: list[bytes], names: Mapping[bytes, str], field: str) -> str:
    texts = ",".join(f'"{_uuid_of(raw)}"' for raw in raws)
    known = [names.get(raw) for raw in raws]
    if not any(known):
        return f"[{texts}]"
    notes = ",".join("null" if topic is None else encode_basestring_ascii(topic) for topic in known)
    return f'[{texts}],"_{field}":[{notes}]'


def _float_text(value: float, field: str) -> str:
    return float.__repr__(value) if isfinite(value) else f'null,"_{field}":"{value}"'
