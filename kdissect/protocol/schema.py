"""The schema of the Kafka protocol: text files in, frozen `Api` and `Message` values out.

The facts stand in `messages/`, one file per API key, written to be read by people; this module owns their grammar.
A file is comments (`#`), then a header line, then lines whose indent of two spaces is their nesting::

    0 Produce  versions 0-13  flexible 9+  live 3-13       an API: key, name, and what is true of all of it
      request                                              its request, then its response
        acks            int16               @acks          field: name, type, versions, tag, default, role
        topic_data      []                                 array of structs: the fields below it
          topic_id      uuid      13+       @topic_id      in versions 13 and above
      response
        current_leader  {}        10+  tag 0               struct, as a tagged field
          leader_id     int32     = -1    @broker          what an absent field means: -1

    line     = name type [versions] ["tag" n] ["=" default] ["@" role]
    type     = primitive | "[]" [primitive] | "{}", then ["?" [versions]] if it may be null, then ["as" Message]
    versions = n | n "-" m | n "+" | "none"                where nothing is said: all of the parent's

Header words: `versions` that ever existed, `flexible` ones (compact lengths and tagged fields, KIP-482), `live` ones
(what Kafka 4.3 still serves), `was` (a former name). After `request` or `response`, `header 0 for 0+` overrides the
version of the message's header. A file without an API holds plain messages, such as those carried inside `bytes`;
`prefixed` says that a 2-byte version stands before the body. `as` names the message that a `bytes` field carries.

Versions are Python ranges. A wrong line raises `SchemaError` with its file and line number: the schema is ours, so a
mistake in it is a bug, unlike wrong bytes, which are faults.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import NamedTuple

NONE = range(0)

Default = int | str | bytes | tuple[()] | None


class SchemaError(Exception):
    """A line of the schema is wrong; the message starts with its file and line number."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message, over all versions of it."""

    name: str
    type: str  # a key of PRIMITIVES, or "struct"
    array: bool
    versions: range  # where it exists, within its parent's
    nullable: range  # where it may be null
    tag: int | None  # set: a tagged field in all of its versions
    default: Default  # what an absent tagged field means; () is an empty array, or a struct of defaults
    role: str | None  # a key of ROLES
    embedded: str | None  # the message that the bytes carry
    fields: tuple["Field", ...]


@dataclass(frozen=True, slots=True)
class Message:
    """One body: a request, a response, or a message carried elsewhere."""

    name: str
    versions: range
    flexible: range
    fields: tuple[Field, ...]
    header: tuple[range, int] | None = None  # versions whose header has this version, against the rule
    prefixed: bool = False  # a 2-byte version stands before the body


@dataclass(frozen=True, slots=True)
class Api:
    """One API key: its request and its response, which always share their versions."""

    key: int
    name: str
    versions: range
    flexible: range
    live: range
    former_name: str | None
    request: Message
    response: Message


def fields_at(owner: Message | Field, version: int) -> tuple[Field, ...]:
    """Give the fields that a message or a struct has in one version: untagged ones in wire order, then the tagged."""
    present = [field for field in owner.fields if version in field.versions]
    untagged = [field for field in present if field.tag is None]
    tagged = [field for field in present if field.tag is not None]
    return (*untagged, *sorted(tagged, key=lambda field: field.tag or 0))


def every_field(owner: Message | Field, path: str = "") -> Iterator[tuple[str, Field]]:
    """Walk all fields of a message, depth first, as (dotted path, field)."""
    for field in owner.fields:
        where = f"{path}.{field.name}" if path else field.name
        yield where, field
        yield from every_field(field, where)


def api_name(key: int) -> str:
    """Name an API key; an unknown one is UNKNOWN(<key>)."""
    api = APIS.get(key)
    return api.name if api else f"UNKNOWN({key})"


def is_known(key: int, version: int) -> bool:
    """Tell whether the schema has this API key in this version."""
    api = APIS.get(key)
    return api is not None and version in api.versions


def request_header_version(key: int, version: int) -> int:
    """Give the version of the request header: 2 for flexible versions, else 1 (KIP-482), and 0 for one exception."""
    return _header_version(APIS[key].request, version, plain=1)


def response_header_version(key: int, version: int) -> int:
    """Give the version of the response header: 1 for flexible versions, else 0; ApiVersions always 0 (KIP-511)."""
    return _header_version(APIS[key].response, version, plain=0)


def _header_version(message: Message, version: int, plain: int) -> int:
    if message.header and version in message.header[0]:
        return message.header[1]
    return plain + (version in message.flexible)


def highest_versions() -> tuple[int, ...]:
    """Give the highest known version of every API key, indexed by key: what a plausible header stays within."""
    return tuple(APIS[key].versions[-1] for key in range(len(APIS)))


class Line(NamedTuple):
    """A line of a schema file that is neither blank nor a comment."""

    file: str
    number: int
    depth: int  # indent in steps of two spaces
    words: list[str]

    def error(self, reason: str) -> SchemaError:
        """Make the error that points at this line."""
        return SchemaError(f"{self.file}:{self.number}: {reason}")


def parse(file: str, text: str) -> list[Api | Message]:
    """Parse one schema file into its APIs and messages, in their order; `file` is for error messages."""
    lines = list(_lines(file, text))
    starts = [at for at, line in enumerate(lines) if line.depth == 0]
    if lines and lines[0].depth:
        raise lines[0].error("indented, but nothing stands above it")
    ends = [*starts[1:], len(lines)]
    return [_block(lines[start], lines[start + 1 : end]) for start, end in zip(starts, ends, strict=True)]


def _lines(file: str, text: str) -> Iterator[Line]:
    for number, raw in enumerate(text.splitlines(), 1):
        words = raw.split()
        if not words or words[0].startswith("#"):
            continue
        indent = len(raw) - len(raw.lstrip(" "))
        line = Line(file, number, indent // 2, words)
        if indent % 2 or "\t" in raw:
            raise line.error("indent is not in steps of two spaces")
        yield line


def _block(head: Line, body: list[Line]) -> Api | Message:
    if not head.words[0].isdigit():
        name, *words = head.words
        said = _header_words(head, words)
        return replace(_message(name, said, body, depth=1), prefixed=said.prefixed)
    if len(head.words) < 2:
        raise head.error("an API needs a key and a name")
    key, name, *words = head.words
    said = _header_words(head, words)
    request, response = _halves(head, name, said, body)
    return Api(int(key), name, said.versions, said.flexible, said.live, said.former_name, request, response)


class _Header(NamedTuple):
    versions: range
    flexible: range = NONE
    live: range = NONE
    former_name: str | None = None
    prefixed: bool = False


def _header_words(head: Line, words: list[str]) -> _Header:
    said = iter(words)
    known = {}
    for word in said:
        known[word] = "" if word == "prefixed" else next(said, "")
    if unknown := known.keys() - {"versions", "flexible", "live", "was", "prefixed"}:
        raise head.error(f"unknown word {min(unknown)!r}")
    if "versions" not in known:
        raise head.error("versions are missing")
    versions = _versions(head, known["versions"], None)
    flexible, live = (_versions(head, known.get(word, "none"), versions) for word in ("flexible", "live"))
    return _Header(versions, flexible, live, known.get("was"), "prefixed" in known)


def _halves(head: Line, name: str, said: _Header, body: list[Line]) -> tuple[Message, Message]:
    at = [index for index, line in enumerate(body) if line.depth == 1]
    if [body[index].words[0] for index in at] != ["request", "response"] or at[0] != 0:
        raise head.error("an API is one request, then one response")
    first, second = body[: at[1]], body[at[1] :]
    return (
        replace(_message(f"{name}Request", said, first[1:], depth=2), header=_quirk(first[0], said.versions)),
        replace(
            _message(f"{name}Response", said, second[1:], depth=2), header=_quirk(second[0], said.versions)
        ),
    )


def _quirk(line: Line, versions: range) -> tuple[range, int] | None:
    match line.words[1:]:
        case []:
            return None
        case ["header", version, "for", these] if version.isdigit():
            return _versions(line, these, versions), int(version)
    raise line.error(f"expected: {line.words[0]} header <version> for <versions>")


def _message(name: str, said: _Header, body: list[Line], depth: int) -> Message:
    fields = _fields(body, depth, said.versions, said.flexible)
    return Message(name, said.versions, said.flexible, fields)


def _fields(lines: list[Line], depth: int, parent: range, flexible: range) -> tuple[Field, ...]:
    fields: list[Field] = []
    at = 0
    while at < len(lines):
        if lines[at].depth != depth:
            raise lines[at].error("indented deeper than the fields of its parent")
        end = at + 1
        while end < len(lines) and lines[end].depth > depth:
            end += 1
        field = _field(lines[at], lines[at + 1 : end], depth, parent, flexible)
        if clash := [
            other for other in fields if other.name == field.name and _meet(other.versions, field.versions)
        ]:
            raise lines[at].error(f"a second field {clash[0].name!r} in the same version")
        fields.append(field)
        at = end
    return tuple(fields)


def _field(line: Line, children: list[Line], depth: int, parent: range, flexible: range) -> Field:
    syntax = FIELD_LINE.fullmatch(" ".join(line.words))
    if syntax is None:
        raise line.error("expected: name type [versions] [tag n] [= default] [@role]")
    kind = syntax["type"] or ("struct" if syntax["brackets"] else "")
    if kind not in PRIMITIVES and kind != "struct":
        raise line.error(f"unknown type {kind!r}")
    if syntax["role"] and syntax["role"] not in ROLES:
        raise line.error(f"unknown role {syntax['role']!r}")
    if (kind == "struct") != bool(children):
        raise line.error("a struct has fields, and nothing else has")
    if syntax["embedded"] and kind != "bytes":
        raise line.error("only bytes carry a message")
    versions = _versions(line, syntax["versions"], parent) if syntax["versions"] else parent
    tag = int(syntax["tag"]) if syntax["tag"] else None
    if tag is not None and not _within(versions, flexible):
        raise line.error("tagged outside the flexible versions")
    return Field(
        name=syntax["name"],
        type=kind,
        array=syntax["brackets"] == "[]",
        versions=versions,
        nullable=_nullable(line, syntax["null"], versions),
        tag=tag,
        default=_default(line, kind, syntax["brackets"], syntax["default"]),
        role=syntax["role"],
        embedded=syntax["embedded"],
        fields=_fields(children, depth + 1, versions, flexible),
    )


def _versions(line: Line, text: str, within: range | None) -> range:
    """Read `n`, `n-m`, `n+` or `none`; an open range ends where `within` does."""
    if text == "none":
        return NONE
    syntax = VERSIONS.fullmatch(text)
    if syntax is None or (within is None and syntax["open"]):
        raise line.error(f"bad versions {text!r}")
    low = int(syntax["low"])
    high = within[-1] if within and syntax["open"] else int(syntax["high"] or low)
    versions = range(low, high + 1)
    if not versions or (within is not None and not _within(versions, within)):
        raise line.error(f"versions {text} lie outside those of the parent")
    return versions


def _nullable(line: Line, mark: str | None, versions: range) -> range:
    if mark is None:
        return NONE
    return _versions(line, mark[1:], versions) if mark[1:] else versions


def _default(line: Line, kind: str, brackets: str | None, text: str | None) -> Default:
    zero: Default = () if brackets else PRIMITIVES[kind]
    if text is None:
        return zero
    if text == "null":
        return None
    if brackets or not isinstance(zero, int):
        raise line.error(f"a default of type {kind} can only be null")
    words = {"true": 1, "false": 0}
    try:
        value = words[text] if text in words else int(text)
    except ValueError:
        raise line.error(f"bad default {text!r}") from None
    return bool(value) if kind == "bool" else value


def _within(inner: range, outer: range) -> bool:
    return bool(outer) and outer[0] <= inner[0] and inner[-1] <= outer[-1]


def _meet(one: range, other: range) -> bool:
    return one[0] <= other[-1] and other[0] <= one[-1]


@cache
def _catalogue() -> tuple[dict[int, Api], dict[str, Message]]:
    files = resources.files(__package__).joinpath("messages")
    texts = {entry.name: entry.read_text("utf-8") for entry in files.iterdir() if entry.name.endswith(".txt")}
    blocks = [block for name in sorted(texts) for block in parse(f"messages/{name}", texts[name])]
    apis = {block.key: block for block in blocks if isinstance(block, Api)}
    plain = {block.name: block for block in blocks if isinstance(block, Message)}
    _check_names(apis.values(), plain)
    return dict(sorted(apis.items())), plain


def _check_names(apis: Iterable[Api], plain: Mapping[str, Message]) -> None:
    for message in (message for api in apis for message in (api.request, api.response)):
        for path, field in every_field(message):
            if field.embedded and field.embedded not in plain:
                raise SchemaError(f"{message.name}.{path}: no message {field.embedded!r}")


class _Apis(Mapping[int, Api]):
    """All APIs by key; the files are read when it is first asked for something."""

    def __getitem__(self, key: int) -> Api:
        return _catalogue()[0][key]

    def __iter__(self) -> Iterator[int]:
        return iter(_catalogue()[0])

    def __len__(self) -> int:
        return len(_catalogue()[0])


class _Messages(Mapping[str, Message]):
    """All messages that belong to no API, by name; read like the APIs."""

    def __getitem__(self, name: str) -> Message:
        return _catalogue()[1][name]

    def __iter__(self) -> Iterator[str]:
        return iter(_catalogue()[1])

    def __len__(self) -> int:
        return len(_catalogue()[1])


APIS: Mapping[int, Api] = _Apis()
MESSAGES: Mapping[str, Message] = _Messages()

# Every primitive with its zero, which is what an absent field means where the schema says nothing else.
PRIMITIVES: dict[str, Default] = {
    "bool": False,
    "int8": 0,
    "int16": 0,
    "uint16": 0,
    "int32": 0,
    "int64": 0,
    "float64": 0,
    "uuid": bytes(16),
    "string": "",
    "int16_string": "",  # a string whose length stays int16 in flexible versions
    "bytes": b"",
    "records": b"",
}

ROLES = {
    "acks": "how many replicas must have a produce request before it is answered",
    "api_key": "an API key",
    "api_version": "the version of an API",
    "broker": "the node id of a broker, controller or voter",
    "broker_epoch": "the epoch a broker got when it registered",
    "client_host": "the address a client comes from, or a pattern of such",
    "client_id": "the name a client gives itself in every request",
    "client_instance": "the UUID of a client that sends telemetry",
    "client_software_name": "the name of a client library",
    "client_software_version": "the version of a client library",
    "cluster": "the id of a cluster",
    "config_value": "the value of a setting, which may be a password",
    "coordinator_key": "what a coordinator is sought for; coordinator_type tells a group from a transactional id",
    "coordinator_type": "what kind of name a coordinator_key is",
    "correlation_id": "the number that pairs a response with its request",
    "diverging_offset": "the end offset where a follower's log diverges from the leader's",
    "error": "an error code",
    "error_message": "an error in words",
    "fetch_epoch": "the count of requests in a fetch session or share session",
    "fetch_session": "the id of a fetch session",
    "first_offset": "the first of a range of record offsets",
    "generation": "the generation of a group, or the epoch of a member",
    "group": "the id of a group",
    "high_watermark": "the offset after the last record that all in-sync replicas have",
    "host": "the host name or address where a node or client listens",
    "instance": "the group.instance.id of a static member",
    "last_offset": "the last of a range of record offsets",
    "last_stable_offset": "the offset before which every transaction has ended",
    "leader_epoch": "the epoch of a partition's leader",
    "log_end_offset": "the offset after the last record of a replica",
    "log_start_offset": "the offset of the first record that is still there",
    "max_bytes": "the most bytes that a fetch may return",
    "max_wait": "how long a fetch may wait for data, in ms",
    "member": "the id of a group member",
    "min_bytes": "how much data a fetch waits for",
    "offset": "the offset an exchange is about: base, fetch, committed, listed or start offset",
    "partition": "the number of a partition",
    "port": "the port that belongs to a host",
    "principal": "the name of a user or service",
    "producer_epoch": "the epoch of a producer id",
    "producer_id": "the id of an idempotent or transactional producer",
    "quota_entity": "what a quota applies to, named by its quota_entity_type",
    "quota_entity_type": "user, client-id or ip",
    "rack": "the rack of a broker or client",
    "records": "record batches or a message set",
    "replica": "the broker that asks as a follower, -1 for a consumer",
    "resource": "the name of a resource of the resource_type beside it, such as a topic",
    "resource_type": "what kind of thing a resource is",
    "sasl_mechanism": "the name of a SASL mechanism",
    "secret": "bytes that may let someone in: SASL tokens, salts, HMACs",
    "sensitive": "whether the config_value beside it is a secret",
    "snapshot_offset": "the end offset that names a snapshot",
    "throttle": "how long a quota delayed the answer, in ms",
    "timestamp": "a time in ms since the epoch, or a query of one",
    "topic": "the name of a topic",
    "topic_id": "the UUID of a topic",
    "topic_pattern": "a regular expression over topic names",
    "transactional_id": "the id of a transactional producer",
    "transactional_id_pattern": "a regular expression over transactional ids",
}

VERSIONS = re.compile(r"(?P<low>\d+)(?:-(?P<high>\d+)|(?P<open>\+))?")

FIELD_LINE = re.compile(
    r"(?P<name>[a-z][a-z0-9_]*)"
    r" (?P<brackets>\[\]|\{\})?(?P<type>\w+)?(?P<null>\?[\d+-]*)?"
    r"(?: as (?P<embedded>\w+))?"
    r"(?: (?P<versions>\d[\d+-]*))?"
    r"(?: tag (?P<tag>\d+))?"
    r"(?: = (?P<default>\S+))?"
    r"(?: @(?P<role>\w+))?"
)
