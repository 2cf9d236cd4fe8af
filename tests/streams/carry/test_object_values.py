"""TLS sessions come back with their keys, and nothing but what is listed is made."""

import pytest

from kdissect.streams.carry.object_values import KINDS, object_of, object_value
from kdissect.streams.carry.value_bytes import CarriedStateError, from_bytes, to_bytes
from kdissect.streams.tls.cipher_suites import SUITES
from kdissect.streams.tls.key_state import Opener
from kdissect.streams.tls.keylog import NO_KEYS
from kdissect.streams.tls.record_protection import Aead12, Cbc12, Tls13
from kdissect.streams.tls.tls_session import Session
from kdissect.streams.tls.tls_state import Alert

GCM, CBC = SUITES[0x009C], SUITES[0x002F]
PROTECTIONS = [
    Tls13(SUITES[0x1301], b"s" * 32),
    Aead12(GCM, b"k" * 16, b"iv42"),
    Cbc12(CBC, b"k" * 16, b"m" * 20, True),
]


@pytest.mark.parametrize("protection", PROTECTIONS, ids=lambda one: type(one).__name__)
def test_keys_come_back(protection: Tls13) -> None:
    opener = Opener([protection])
    again = object_of(from_bytes(to_bytes(object_value(opener))))
    assert again.protection.arguments == protection.arguments
    assert again.protection.overhead == protection.overhead
    assert type(again.protection) is type(protection)


def test_a_session_comes_back_in_all_its_parts() -> None:
    session = Session(NO_KEYS)
    session.client, session.alert, session.version = 1, Alert("bad_certificate", 0), 0x0304
    again = object_of(object_value(session))
    again.use_keys(NO_KEYS)
    assert object_value(again) == object_value(session)
    assert again.facts() == session.facts()
    assert object_of(object_value(session.facts())) == session.facts()


def test_all_slots_of_a_session_are_carried_but_the_key_log() -> None:
    named = {name for kind in (Session,) for name in kind.__slots__}
    assert len(KINDS[Session].fields(Session(NO_KEYS))) == len(named - {"_keys"})


def test_other_objects_are_refused() -> None:
    with pytest.raises(TypeError):
        object_value(NO_KEYS)
    with pytest.raises(CarriedStateError):
        object_of({"class": "Popen", "fields": ["ls"]})
    with pytest.raises(CarriedStateError):
        object_of({"class": "Alert", "fields": [1, 2, 3]})
