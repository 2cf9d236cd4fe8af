"""The grammar of the schema files: text in, `ApiRow` and `Message` values out.

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
    type     = primitive | "[]" [primitive] | "{}", then "?" [versions] if it may be null, then "as" Message
    versions = n | n "-" m | n "+" | "none"; where nothing is said, all of the parent's

Header words: `versions` that ever existed, `flexible` ones (compact lengths and tagged fields, KIP-482),
`live` ones (what the newest of `releases.RELEASES` serves), `unstable` ones (served only if the broker's
operator wants it), `was` (a former name). After `request` or `response`, `header 0 for 0+` overrides the
version of the message's header, and `trailing 0-2` lets an empty array stand behind the message. A file
without an API holds plain messages, such as those carried inside `bytes`; `prefixed` says that a 2-byte
version stands before the body. `as` names the message that a `bytes` field carries.

Versions are Python ranges. A wrong line raises `SchemaError` with its file and line number: the schema is
ours, so a mistake in it is a bug, unlike wrong bytes, which are faults.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from kdissect.protocol.schema.definition import (
    NONE,
    PRIMITIVES,
    Api,
    Default,
    Field,
    Message,
)
from kdissect.protocol.schema.field_roles import ROLES


class SchemaError(Exception):
    """A line of the schema is wrong; the message starts with its file and line number."""


class Line(NamedTuple):
    """A line of a schema file that is neither blank nor a comment."""

    file: str
    number: int
    depth: int  # indent in steps of two spaces
    words: list[str]

    def error(self, reason: str) -> SchemaError:
        """Return the error that points at this line."""
        return SchemaError(f"{self.file}:{self.number}: {reason}")


def parse(file: str, text: str) -> list[Api | Message]:
    """Return the APIs and messages of one schema file in their order; `file` is for error messages."""
    lines = list(_lines(file, text))
    starts = [at for at, line in enumerate(lines) if line.depth == 0]
    if lines and lines[0].depth:
        raise lines[0].error("indented, but nothing stands above it")
    bounds = pairwise([*starts, len(lines)])
    return [_block(lines[start], lines[start + 1 : end]) for start, end in bounds]


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
        header = _header_words(head, words)
        return replace(_message(name, header, body, depth=1), prefixed=header.prefixed)
    if len(head.words) < 2:
        raise head.error("an API needs a key and a name")
    key, name, *words = head.words
    header = _header_words(head, words)
    request, response = _halves(head, name, header, body)
    return Api(
        int(key),
        name,
        header.versions,
        header.flexible,
        header.live,
        header.former_name,
        request,
        response,
        header.unstable,
    )


class _Header(NamedTuple):
    versions: range
    flexible: range = NONE
    live: range = NONE
    former_name: str | None = None
    prefixed: bool = False
    unstable: range = NONE


def _header_words(head: Line, words: list[str]) -> _Header:
    rest = iter(words)
    known = {}
    for name in rest:
        known[name] = "" if name == "prefixed" else next(rest, "")
    if unknown := known.keys() - {"versions", "flexible", "live", "unstable", "was", "prefixed"}:
        raise head.error(f"unknown word {min(unknown)!r}")
    if "versions" not in known:
        raise head.error("versions are missing")
    versions = _versions(head, known["versions"], None)
    flexible, live, unstable = (
        _versions(head, known.get(name, "none"), versions) for name in ("flexible", "live", "unstable")
    )
    return _Header(versions, flexible, live, known.get("was"), "prefixed" in known, unstable)


def _halves(head: Line, name: str, header: _Header, body: list[Line]) -> tuple[Message, Message]:
    start = [index for index, line in enumerate(body) if line.depth == 1]
    if [body[index].words[0] for index in start] != ["request", "response"] or start[0] != 0:
        raise head.error("an API is one request, then one response")
    first, second = body[: start[1]], body[start[1] :]
    return (
        _with_quirk(first[0], _message(f"{name}Request", header, first[1:], depth=2)),
        _with_quirk(second[0], _message(f"{name}Response", header, second[1:], depth=2)),
    )


def _with_quirk(line: Line, message: Message) -> Message:
    match line.words[1:]:
        case []:
            return message
        case ["header", version, "for", these] if version.isdigit():
            return replace(message, header=(_versions(line, these, message.versions), int(version)))
        case ["trailing", these]:
            return replace(message, trailing=_versions(line, these, message.versions))
    raise line.error(f"expected: {line.words[0]} header <version> for <versions>, or trailing <versions>")


def _message(name: str, header: _Header, body: list[Line], depth: int) -> Message:
    fields = _fields(body, depth, header.versions, header.flexible)
    return Message(name, header.versions, header.flexible, fields)


def _fields(lines: list[Line], depth: int, parent: range, flexible: range) -> tuple[Field, ...]:
    fields: list[Field] = []
    start = 0
    while start < len(lines):
        if lines[start].depth != depth:
            raise lines[start].error("indented deeper than the fields of its parent")
        end = start + 1
        while end < len(lines) and lines[end].depth > depth:
            end += 1
        field = _field(lines[start], lines[start + 1 : end], depth, parent, flexible)
        if clash := [
            other for other in fields if other.name == field.name and _meet(other.versions, field.versions)
        ]:
            raise lines[start].error(f"a second field {clash[0].name!r} in the same version")
        fields.append(field)
        start = end
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
    """Return the versions that `n`, `n-m`, `n+` or `none` names; an open range ends where `within` does."""
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
