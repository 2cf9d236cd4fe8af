"""The codec agrees with Kafka's own classes: a small part of what `python -m tests.oracle.kafka_clients`
does."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.lab.maven import LabUnavailable
from tests.oracle.agreement import Leniency, compare
from tests.oracle.coverage import Coverage, coverage
from tests.oracle.kafka_clients import check
from tests.oracle.peer import Peer, Reading, running

pytestmark = pytest.mark.java

RELEASE = "4.4.0"


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    try:
        with running(RELEASE) as started:
            yield started
    except LabUnavailable as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def known(peer: Peer) -> Coverage:
    return coverage(peer.catalogue(), RELEASE)


def test_kdissect_has_every_message_version_and_field_of_the_release(known: Coverage) -> None:
    assert (known.only_release, known.other_fields, known.drafts) == ([], [], [])
    assert len(known.pairs) > 600


def test_messages_whole_and_damaged_are_read_and_written_alike(peer: Peer, known: Coverage) -> None:
    result = check(peer, known.pairs, seed=1, messages=4)
    assert result.differences == []
    counts = result.total.counts
    assert min(counts["accepted"], counts["refused"]) > counts["messages"] // 4
    assert {Leniency.TEXT, Leniency.NULL, Leniency.NEGATIVE} <= result.leniencies.keys()


def test_a_field_of_another_type_is_a_difference(peer: Peer, known: Coverage) -> None:
    pair = next(it for it in known.pairs if (it.message.name, it.version) == ("HeartbeatRequest", 4))
    fields = tuple(
        replace(field, type="int16") if field.name == "generation_id" else field
        for field in pair.message.fields
    )
    wrong = replace(pair, message=replace(pair.message, fields=fields))
    assert check(peer, [wrong], seed=1).differences


def test_what_one_side_refuses_is_a_difference(peer: Peer, known: Coverage) -> None:
    pair = next(it for it in known.pairs if it.message.name == "HeartbeatRequest")
    cut, whole = b"\0\1", b"\0\1g\0\0\0\1\0\1m"
    (reading,) = peer.read(pair.class_name, pair.version, [whole])
    assert compare(pair.message, pair.version, whole, reading).difference is None
    only_ours = compare(pair.message, pair.version, whole, Reading("no"))
    only_theirs = compare(pair.message, pair.version, cut, reading)
    other_bytes = compare(pair.message, pair.version, whole, reading._replace(written=b""))
    other_values = compare(pair.message, pair.version, whole, reading._replace(values='["g",2,"m"]'))
    for verdict in (only_ours, only_theirs, other_bytes, other_values):
        assert verdict.difference
