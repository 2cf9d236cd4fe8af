"""TLS sessions, and other objects of pass two, as plain values and back.

Each class that may be carried is listed here with how it is taken apart: by its slots, by the fields of its
tuple, by the value of its enum, or by the arguments that make an equal one (keys). Nothing else is written or
made, so a file of state cannot name a class. The secrets of sessions are part of the value: whoever keeps it
must protect it like a key log.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

from kdissect.streams.carry.value_bytes import CarriedStateError, Value
from kdissect.streams.tls.cipher_suites import Suite
from kdissect.streams.tls.handshake import Messages
from kdissect.streams.tls.key_state import Opener
from kdissect.streams.tls.record_layer import Records
from kdissect.streams.tls.record_protection import Aead12, Cbc12, Tls13
from kdissect.streams.tls.tls_session import Session
from kdissect.streams.tls.tls_state import Alert, Decryption, HandshakeOutcome, Peer, TlsFacts

CLASS = "class"  # the key that tells an object from a dict


class Form(NamedTuple):
    """How objects of a class are taken apart and made again."""

    fields: Callable[[Any], list[Value]]
    made: Callable[[list[Value]], Any]


def _by_slots(kind: type[Any], without: tuple[str, ...] = ()) -> Form:
    slots = [name for name in kind.__slots__ if name not in without]

    def made(fields: list[Value]) -> Any:
        made = object.__new__(kind)
        for name, value in zip(slots, fields, strict=True):
            setattr(made, name, value)
        return made

    return Form(lambda one: [getattr(one, name) for name in slots], made)


def _by_fields(kind: type[Any]) -> Form:
    return Form(list, lambda fields: kind(*fields))


def _by_value(kind: type[Enum]) -> Form:
    return Form(lambda one: [one.value], lambda fields: kind(fields[0]))


def _by_arguments(kind: type[Any]) -> Form:
    return Form(lambda one: list(one.arguments), lambda fields: kind(*fields))


KINDS: dict[type[Any], Form] = {
    Session: _by_slots(Session, without=("_keys",)),
    **{kind: _by_slots(kind) for kind in (Peer, Records, Messages, Opener)},
    **{kind: _by_fields(kind) for kind in (TlsFacts, Alert, Suite)},
    **{kind: _by_value(kind) for kind in (HandshakeOutcome, Decryption)},
    **{kind: _by_arguments(kind) for kind in (Tls13, Aead12, Cbc12)},
}
BY_NAME = {kind.__name__: form for kind, form in KINDS.items()}


def object_value(item: Any) -> Value:
    """Return an object as a tree of plain values. Raise TypeError for an object of another class."""
    form = KINDS.get(type(item))
    if form is not None:
        return {CLASS: type(item).__name__, "fields": [object_value(part) for part in form.fields(item)]}
    if isinstance(item, dict):
        return {key: object_value(part) for key, part in item.items()}
    if type(item) in (list, tuple):
        return [object_value(part) for part in item]
    if item is None or type(item) in (bool, int, str, bytes):
        return item
    raise TypeError(f"{type(item).__name__} cannot be carried")


def object_of(value: Value) -> Any:
    """Return the object of a value. Raise CarriedStateError for one of a class that is not carried."""
    if isinstance(value, list):
        return [object_of(part) for part in value]
    if not isinstance(value, dict):
        return value
    if CLASS not in value:
        return {key: object_of(part) for key, part in value.items()}
    form = BY_NAME.get(value[CLASS])
    if form is None:
        raise CarriedStateError("the carried state was written by another version of kdissect")
    try:
        return form.made([object_of(part) for part in value["fields"]])
    except (TypeError, ValueError):
        raise CarriedStateError("the carried state was written by another version of kdissect") from None
