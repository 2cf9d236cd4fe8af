"""What TLS is read with.

Key logs, cipher suites, handshake messages and the hunt for records, each for itself.
"""

import pickle
import random
from pathlib import Path

import pytest
from scapy.layers.tls.crypto.suites import _tls_cipher_suites
from scapy.layers.tls.handshake import TLSClientHello, TLSServerHello

from kdissect.capture.inputs import InputError
from kdissect.streams.tls.cipher_suites import SUITES, suite_name
from kdissect.streams.tls.handshake import (
    Messages,
    read_client_hello,
    read_server_hello,
)
from kdissect.streams.tls.keylog import (
    NO_KEYS,
    keys_for,
    parse,
)
from kdissect.streams.tls.record_layer import (
    Chunk,
    Records,
    RecordVerdict,
)

RANDOM, SECRET = "ab" * 32, "0123456789abcdef" * 6
GOOD = f"CLIENT_RANDOM {RANDOM} {SECRET}"


def test_suites_are_named_as_scapy_names_them() -> None:
    for number, suite in SUITES.items():
        if number in _tls_cipher_suites:
            assert suite.name.removesuffix("_SHA256" if suite.name.endswith("CCM_8_SHA256") else "") in (
                _tls_cipher_suites[number],
                _tls_cipher_suites[number].removesuffix("_SHA256"),
            )
    assert len(SUITES.keys() & _tls_cipher_suites.keys()) > 45
    assert suite_name(0x0A0A) == "0x0A0A"


def test_a_key_log_is_read_line_by_line() -> None:
    text = f"# comment\r\n\n{GOOD}\r\n{GOOD.replace(SECRET, SECRET[::-1])}\nnonsense\nCLIENT_RANDOM zz zz\n"
    keys = parse([text.encode(), b"\xff\xfe\x00 \x80 \x81\n", b"CLIENT_RANDOM " + b"1" * 10_000])
    assert len(keys) == 1
    assert keys.of(bytes.fromhex(RANDOM)) == {"CLIENT_RANDOM": bytes.fromhex(SECRET)}
    assert keys.of(bytes(32)) == {}


def test_a_key_log_may_name_sessions_by_their_id() -> None:
    keys = parse([f"RSA Session-ID:0A0b Master-Key:{SECRET}\n".encode()])
    assert keys.master_of(b"\x0a\x0b") == bytes.fromhex(SECRET)
    assert keys.master_of(b"") is None


def test_a_key_log_does_not_show_itself() -> None:
    keys = parse([GOOD.encode()])
    assert SECRET[:16] not in repr(keys) + str(keys) + f"{keys}"
    assert pickle.loads(pickle.dumps(keys)).of(bytes.fromhex(RANDOM)) == keys.of(bytes.fromhex(RANDOM))


def test_wrong_key_logs_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("# nothing\n")
    for name, words in (("empty", "no key log"), ("absent", "no such file"), ("", "directory")):
        with pytest.raises(InputError, match=words):
            keys_for(str(tmp_path / name), ())
    assert len(keys_for(None, ())) == len(NO_KEYS) == 0


def test_hellos_cut_anywhere_or_spoilt_anywhere_are_no_hellos_or_others() -> None:
    chance = random.Random(7)
    client = bytes(TLSClientHello(gmt_unix_time=1, random_bytes=bytes(28), ciphers=[0x1301], sid=b"x" * 32))[
        4:
    ]
    server = bytes(TLSServerHello(gmt_unix_time=1, random_bytes=bytes(28), cipher=0xC02F, sid=b"y" * 32))[4:]
    told = read_server_hello(server)
    assert told is not None
    assert (told.suite, told.session, told.version) == (0xC02F, b"y" * 32, 0x0303)
    asked = read_client_hello(client)
    assert asked is not None
    assert asked.random == bytes([0, 0, 0, 1]) + bytes(28)
    for hello, read in ((client, read_client_hello), (server, read_server_hello)):
        assert all(read(hello[:size]) is None for size in range(34))
        for _ in range(3000):
            spoilt = bytearray(hello)
            for _ in range(chance.randrange(1, 5)):
                spoilt[chance.randrange(len(spoilt))] = chance.randrange(256)
            read(bytes(spoilt)[: chance.randrange(len(spoilt) + 1)])


def test_messages_come_out_however_they_are_cut_and_huge_ones_are_passed_over() -> None:
    bodies = [(1, b"a" * 10), (11, b"b" * 40_000), (11, None), (20, b"")]
    stream = b"".join(
        bytes([kind])
        + len(bytes(200_000) if body is None else body).to_bytes(3, "big")
        + (body if body is not None else bytes(200_000))
        for kind, body in bodies
    )
    for size in (1000, 16_384, len(stream)):
        messages = Messages()
        found = [one for at in range(0, len(stream), size) for one in messages.add(stream[at : at + size])]
        assert found == bodies


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
