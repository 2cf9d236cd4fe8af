"""Records in a stream, also behind lost bytes, and the names of alerts."""

import random

import pytest
from scapy.layers.tls.record import _tls_alert_description

from kdissect.streams.tls.record_layer import (
    ALERTS,
    HARMLESS,
    Chunk,
    Records,
    RecordVerdict,
    alert_name,
)


@pytest.mark.parametrize("seed", range(30))
def test_records_behind_any_loss(seed: int) -> None:
    """Records hold their own number.

    Those that survive whole are found, none is made up, every byte is accounted for.
    """
    chance = random.Random(seed)
    sizes = [chance.choice([3, 40, 3000, 16_000]) for _ in range(40)]
    made = [
        bytes([23, 3, 3]) + size.to_bytes(2, "big") + number.to_bytes(2, "big") + chance.randbytes(size - 2)
        for number, size in enumerate(sizes)
    ]
    stream = b"".join(made)
    cuts = sorted(chance.sample(range(len(stream)), 60))
    parts = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    lost = set(chance.sample(range(3, len(parts)), 6))
    chunks = [
        Chunk(None if index in lost else part, len(part), index, index) for index, part in enumerate(parts)
    ]
    taken: list[int] = []
    whole = set(made)
    records = Records()

    def on_record(header: bytes, fragment: bytes, _: object) -> RecordVerdict:
        if header + fragment not in whole:
            return RecordVerdict.SHUT
        taken.append(int.from_bytes(fragment[:2], "big"))
        records.found_again()
        return RecordVerdict.TAKEN

    held: list[Chunk] = []
    for chunk in chunks:
        held.append(chunk)
        done, _ = records.read(held, on_record)
        while done:
            first = held[0]
            if first.length <= done:
                held.pop(0)
                done -= first.length
            else:
                data = None if first.data is None else first.data[done:]
                held[0] = Chunk(data, first.length - done, first.time_ns, first.packet)
                done = 0
    at, survived = 0, []
    edges = [0, *cuts, len(stream)]
    for number, record in enumerate(made):
        touched = {i for i in range(len(parts)) if edges[i] < at + len(record) and edges[i + 1] > at}
        if not touched & lost:
            survived.append(number)
        at += len(record)
    assert taken == survived


@pytest.mark.parametrize("number", sorted(ALERTS.keys() & _tls_alert_description.keys()))
def test_alerts_are_named_as_scapy_names_them(number: int) -> None:
    same = {"no_certificate_RESERVED": "no_certificate", "export_restriction_RESERVED": "export_restriction"}
    theirs = _tls_alert_description[number].removesuffix("_RESERVED")
    assert alert_name(number) == same.get(theirs, theirs)


def test_an_alert_without_a_name_shows_its_number() -> None:
    assert alert_name(200) == "alert_200"


def test_harmless_alerts_are_those_that_end_or_decline() -> None:
    assert {alert_name(number) for number in HARMLESS} == {
        "close_notify",
        "user_canceled",
        "no_renegotiation",
    }
