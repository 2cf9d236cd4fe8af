"""kafka-python, which knows the versions that Kafka 4.0 removed, and kdissect read each other's bytes."""

import importlib
import pkgutil
import warnings
from collections.abc import Iterable
from random import Random
from typing import Any
from uuid import UUID

import pytest

from kdissect.protocol.codec.messages import decode, encode
from kdissect.protocol.schema.definition import Field, Message
from kdissect.protocol.schema.registry import APIS
from tests.helpers.message_trees import complete, default, present
from tests.helpers.random_messages import random_message

SAMPLES = 4

# Messages that it reads wrongly, and kdissect does not. The list may only shrink: an entry that agrees fails.
DISAGREEMENTS = {
    ("ApiVersionsResponse", version): "reads any error code, not just 35, as an answer of version 0"
    for version in (1, 2, 3, 4)
}


def their_classes() -> dict[str, Any]:
    for module in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
        if ".old" not in module.name and "generate" not in module.name:
            importlib.import_module(module.name)
    return {entity.__name__: entity for entity in ApiMessage.__subclasses__()}


with warnings.catch_warnings(action="ignore"):  # of importlib, over how it reads its definitions
    import kafka.protocol
    from kafka.protocol.api_message import ApiMessage

    CLASSES = their_classes()

MESSAGES = [
    message for api in APIS.values() for message in (api.request, api.response) if message.name in CLASSES
]
PAIRS = [(message, version) for message in MESSAGES for version in message.versions]


def plain(owner: Message | Field, version: int, entity: Any) -> dict[str, Any]:
    """Turn an object of theirs into our tree; its fields stand in the order of the definitions."""
    fields = present(owner, version)
    names = [slot.name for slot in entity._struct._fields if slot.for_version_q(version)]
    assert len(fields) == len(names), (
        f"{owner.name} v{version}: {[f.name for f in fields]} but it has {names}"
    )
    return {
        field.name: plain_value(field, version, getattr(entity, name))
        for field, name in zip(fields, names, strict=True)
    }


def plain_value(field: Field, version: int, value: Any) -> Any:
    match value:
        case list() | set() | None if field.name.endswith("authorized_operations"):  # the bits that are set
            return bits_to_int32(value)
        case None if field.type == "struct" and field.tag is not None:  # an absent one
            return default(field, version)
        case list() | set():
            return [plain_value(field, version, item) for item in value]
        case UUID():
            return value.bytes
        case None if field.type == "uuid":  # its word for a UUID of zeros
            return bytes(16)
        case memoryview():
            return bytes(value)
        case None | bool() | int() | float() | str() | bytes():
            return value
    return plain(field, version, value)


def bits_to_int32(bits: Iterable[int] | None) -> int:
    mask = 1 << 31 if bits is None else sum(1 << bit for bit in bits)
    return mask - (1 << 32) if mask >> 31 else mask


def disagreement(message: Message, version: int) -> str | None:
    """Return how we and they differ over some random messages; None when we do not."""
    theirs = CLASSES[message.name]
    for seed in range(SAMPLES):
        value = random_message(
            Random(f"{message.name}{version}{seed}"), message, version, tame=True, tags=False
        )
        wanted = complete(message, version, value)
        try:
            entity = theirs.decode(encode(message, version, value), version=version)
            read = plain(message, version, entity)
            entity._header = None  # it cannot encode what it has decoded without one
            written = decode(message, version, bytes(entity.encode(version=version)))
        except Exception as error:  # noqa: BLE001 - whatever it raises, it disagrees
            return repr(error)
        if read != wanted:
            return f"it reads {wanted} as {read}"
        if written.fault or complete(message, version, written.value) != wanted:
            return f"it writes {wanted} as {written}"
    return None


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.name)
def test_kafka_python_agrees(message: Message) -> None:
    for version in message.versions:
        if version > CLASSES[message.name].max_version:
            continue
        difference = disagreement(message, version)
        if (message.name, version) in DISAGREEMENTS:
            assert difference, f"take {message.name} version {version} off the list"
        else:
            assert difference is None


def test_kafka_python_knows_the_versions_that_kafka_dropped() -> None:
    """Check versions that kio does not know.

    Every version that Kafka 4.0 removed of an API that it kept, as far as clients use it.
    """
    dropped = {
        (message.name, version) for message, version in PAIRS if version <= CLASSES[message.name].max_version
    }
    for key, version in ((0, 0), (0, 2), (1, 0), (1, 3), (2, 0), (8, 0), (8, 1), (9, 0), (19, 0), (32, 0)):
        assert (APIS[key].request.name, version) in dropped
