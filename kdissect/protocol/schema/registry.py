"""The schema of the Kafka protocol: every API and message, read from the text files in `messages/`.

The facts stand there, one file per API key, written to be read and edited by people; `parser` has their
grammar, `definition` the values that they become. There is no build step: the files are read when something
is first asked for.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources

from kdissect.protocol.schema.definition import (
    Api,
    Field,
    Message,
    every_field,
    fields_at,
)
from kdissect.protocol.schema.field_roles import ROLES
from kdissect.protocol.schema.parser import SchemaError, parse

__all__ = [
    "APIS",
    "MESSAGES",
    "ROLES",
    "Api",
    "Field",
    "Message",
    "SchemaError",
    "api_name",
    "every_field",
    "fields_at",
    "find_api_key",
    "highest_versions",
    "is_known",
    "request_header_version",
    "response_header_version",
]


def api_name(key: int) -> str:
    """Return the name of an API key, UNKNOWN(<key>) for an unknown one."""
    api = APIS.get(key)
    return api.name if api else f"UNKNOWN({key})"


def find_api_key(text: str) -> int | None:
    """Return the key of an API by its name (in any case), a former name, or its number; None if unknown.

    A number need not be an API of the schema.
    """
    if text.isdecimal() and len(text) < 6:
        return int(text)
    return _keys_by_name().get(text.lower())


@cache
def _keys_by_name() -> dict[str, int]:
    names: dict[str, int] = {}
    for key, api in APIS.items():
        names[api.name.lower()] = key
        if api.former_name:
            names.setdefault(api.former_name.lower(), key)
    return names


def is_known(key: int, version: int) -> bool:
    """Return whether the schema has this API key in this version."""
    api = APIS.get(key)
    return api is not None and version in api.versions


def request_header_version(key: int, version: int) -> int:
    """Return the version of the request header.

    It is 2 for flexible versions, else 1 (KIP-482), with one exception that has 0.
    """
    return _header_version(APIS[key].request, version, plain=1)


def response_header_version(key: int, version: int) -> int:
    """Return the version of the response header: 1 for flexible versions, else 0.

    It is always 0 for ApiVersions (KIP-511).
    """
    return _header_version(APIS[key].response, version, plain=0)


def _header_version(message: Message, version: int, plain: int) -> int:
    version = min(version, message.versions[-1])  # a newer version than ours has the header of the newest
    if message.header and version in message.header[0]:
        return message.header[1]
    return plain + (version in message.flexible)


def highest_versions() -> tuple[int, ...]:
    """Return the highest known version of every API key, indexed by key.

    A header with a higher version is not plausible.
    """
    return tuple(APIS[key].versions[-1] for key in range(len(APIS)))


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
