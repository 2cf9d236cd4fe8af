"""kio, generated from Kafka's definitions, reads our bytes as the same values and writes them back."""

import importlib
import io
from datetime import datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map
from kio.serial import entity_reader, entity_writer

from kdissect.protocol.codec.messages import decode, encode
from kdissect.protocol.error_codes import error_name, is_retriable
from kdissect.protocol.schema.definition import (
    Api,
    Field,
    Message,
)
from kdissect.protocol.schema.registry import APIS
from tests.helpers.message_trees import complete, present
from tests.helpers.random_messages import random_message

SAMPLES = 4

# kio is generated from Kafka 4.x: it lacks the versions that 4.0 removed, and the APIs of the ZooKeeper era.
MISSING_PAIRS = 59


def kio_class(api: Api, version: int, half: str) -> type[Any] | None:
    try:
        module = importlib.import_module(f"kio.schema.{api_key_map[api.key]}.v{version}.{half}")
    except (KeyError, ImportError):
        return None
    return getattr(module, f"{api.name}{half.capitalize()}")


def plain(owner: Message | Field, version: int, entity: Any) -> dict[str, Any]:
    """Turn a kio entity into our tree.

    Its fields stand in the order of the definitions, under names of its own.
    """
    fields, slots = present(owner, version), entity.__slots__
    assert len(fields) == len(slots), (
        f"{owner.name} v{version}: {[f.name for f in fields]} but kio has {slots}"
    )
    return {
        field.name: plain_value(field, version, getattr(entity, slot))
        for field, slot in zip(fields, slots, strict=True)
    }


def plain_value(field: Field, version: int, value: Any) -> Any:
    match value:
        case tuple() if field.type == "uuid":
            return [item.bytes if item else bytes(16) for item in value]
        case tuple():
            return [plain_value(field, version, item) for item in value]
        case None if field.type == "uuid" and not field.array:  # kio's word for a UUID of zeros
            return bytes(16)
        case ErrorCode():
            assert field.role == "error", f"kio calls {field.name} an error code"
            return value.value
        case datetime():
            return round(value.timestamp() * 1000)
        case timedelta():
            return value // timedelta(milliseconds=1)
        case UUID():
            return value.bytes
        case None | bool() | int() | float() | str() | bytes():
            return value
    return plain(field, version, value)


def pairs() -> list[Any]:
    return [
        pytest.param(api, half, id=f"{api.name}-{half}")
        for api in APIS.values()
        for half in ("request", "response")
    ]


@pytest.mark.parametrize(("api", "half"), pairs())
def test_kio_agrees(api: Api, half: str) -> None:
    message: Message = getattr(api, half)
    for version in api.versions:
        if (entity_type := kio_class(api, version, half)) is None:
            continue
        read, write = entity_reader(entity_type), entity_writer(entity_type)
        for seed in range(SAMPLES):
            value = random_message(
                Random(f"{message.name}{version}{seed}"), message, version, tame=True, tags=False
            )
            ours = encode(message, version, value)
            entity, size = read(ours, 0)
            assert size == len(ours)
            assert plain(message, version, entity) == complete(message, version, value)
            out = io.BytesIO()
            write(out, entity)
            theirs = decode(message, version, out.getvalue())
            assert theirs.fault is None
            assert complete(message, version, theirs.value) == complete(message, version, value)


def test_kio_knows_all_but_the_old_pairs() -> None:
    """Every version up to the newest one that kio has of an API, or none of an API that it does not have."""
    missing = []
    for api in APIS.values():
        known = [version for version in api.versions if kio_class(api, version, "request")]
        newest = known[-1] if known else -1 if api.live else api.versions[-1]
        missing += [(api, version) for version in api.versions if version <= newest and version not in known]
    assert len(missing) == MISSING_PAIRS, [(api.name, version) for api, version in missing]
    assert [(api.name, version) for api, version in missing if version in api.live] == []


def test_kio_cannot_read_null_in_a_tagged_string() -> None:
    """The one thing that random messages leave out for kio's sake; once this fails, they need not."""
    message = APIS[1].request
    read = entity_reader(kio_class(APIS[1], 12, "request"))
    with pytest.raises(Exception):  # noqa: B017, PT011
        read(encode(message, 12, {"cluster_id": None}), 0)


def test_errors_agree_with_kio() -> None:
    for error in ErrorCode:
        assert (error_name(error.value).lower(), is_retriable(error.value)) == (error.name, error.retriable)
