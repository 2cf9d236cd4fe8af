"""The TLS target: two damaged streams of records through a session with keys, and the handshake messages by
themselves.

A case's `key` says into packets of how many bytes it is cut, `response` whether some of them are lost; its
data are a key log, a zero byte and flights, each led by a byte with its side and three with its length. The
seeds are OpenSSL's own conversations in several suites.
"""

import ssl
import tempfile
from functools import cache
from pathlib import Path
from random import Random

from kdissect.streams.tls.handshake import (
    Messages,
    read_client_hello,
    read_server_hello,
)
from kdissect.streams.tls.keylog import parse
from kdissect.streams.tls.record_layer import Chunk
from kdissect.streams.tls.tls_session import Session
from tests.fuzz.case import Case
from tests.helpers.tls_ends import CLIENT, SERVER, Ends, Kind

V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
KINDS = (
    Kind(V13),
    Kind(V13, ask_certificate=True),
    Kind(V12, "ECDHE-RSA-AES128-GCM-SHA256"),
    Kind(V12, "ECDHE-RSA-CHACHA20-POLY1305"),
    Kind(V12, "AES256-SHA256"),
    Kind(V12, "ECDHE-RSA-AES128-SHA", ask_certificate=True, send_certificate=True),
)


@cache
def _spoken() -> list[bytes]:
    spoken = []
    for kind in KINDS:
        log = Path(tempfile.mkdtemp(prefix="kdissect-fuzz-")) / "keylog"
        ends = Ends(kind, log).shake()
        if not ends.error:
            ends.say(CLIENT, b"question" * 20).say(SERVER, b"answer" * 60).close()
        spoken.append(
            _log(log)
            + b"".join(bytes([side]) + len(data).to_bytes(3, "big") + data for side, data in ends.flights)
        )
    return spoken


def _log(path: Path) -> bytes:
    lines = (line for line in path.read_bytes().splitlines() if not line.startswith(b"#"))
    return b"\n".join(lines) + b"\0"


def seeds() -> list[Case]:
    """Return each conversation, cut in several ways."""
    return [
        Case(size, 0, lossy, data)
        for data in _spoken()
        for size in (60, 700, 30_000)
        for lossy in (False, True)
    ]


def sessions(case: Case) -> None:
    """A session takes any bytes, in bounded work, and every byte is either held or done with."""
    log, _, data = case.data.partition(b"\0")
    session = Session(parse([log]))
    chance = Random(len(data))
    held: tuple[list[Chunk], list[Chunk]] = ([], [])
    at, plain, sent = 0, 0, 0
    while at + 4 <= len(data):
        side, size = data[at] & 1, int.from_bytes(data[at + 1 : at + 4], "big")
        flight = data[at + 4 : at + 4 + size]
        at += 4 + size
        step = max(1, case.key, len(flight) // 12)
        for start in range(0, len(flight), step):
            part = flight[start : start + step]
            lost = case.response and chance.random() < 0.03
            held[side].append(Chunk(None if lost else part, len(part), start, start))
            sent += len(part)
            for way in (side, 1 - side):
                waiting = sum(chunk.length for chunk in held[way])
                done, _, made = session.take(way, held[way])
                assert 0 <= done <= waiting
                _drop(held[way], done)
                plain += sum(piece.length for piece in made if piece.data is not None)
                assert sum(chunk.length for chunk in held[way]) <= waiting - done
    assert plain <= sent
    facts = session.facts()
    assert 0 <= facts.undecrypted <= sent
    for read in (read_client_hello, read_server_hello):
        read(case.data)
    assert sum(len(body or b"") for _, body in Messages().add(case.data)) <= len(case.data)


def _drop(chunks: list[Chunk], count: int) -> None:
    while count and chunks:
        first = chunks[0]
        if first.length > count:
            data = None if first.data is None else first.data[count:]
            chunks[0] = first._replace(data=data, length=first.length - count)
            return
        count -= first.length
        chunks.pop(0)
