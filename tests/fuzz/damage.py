"""Damage to bytes, of the kinds that find the most: ends of ranges, wrong lengths, cuts, repeats, foreign
parts."""

from random import Random

BYTES = (0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF)
NUMBERS = (0, 1, -1, -2, 2, 100, 0x7FFF, 0x10000, 0x7FFFFFFF, -0x80000000, 0x7FFFFFFFFFFFFFFF, -(1 << 63))
VARINTS = (b"\x80\x80\x80\x80\x08", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x7f", b"\x80\0", b"\xff" * 10)
SIZES = (1, 2, 4, 4, 8)
LARGEST = 1 << 16


def damaged(rng: Random, data: bytes, other: bytes, first: int = 0) -> bytes:
    """Change bytes from `first` on, once or a few times."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        at = rng.randrange(first, max(len(out), first) + 1)
        rng.choice(DAMAGES)(rng, out, at, other)
    return bytes(out[:LARGEST])


def _set_byte(rng: Random, out: bytearray, at: int, other: bytes) -> None:
    out[at : at + 1] = bytes([rng.choice((*BYTES, rng.randrange(256)))])


def _flip_bit(rng: Random, out: bytearray, at: int, other: bytes) -> None:
    if at < len(out):
        out[at] ^= 1 << rng.randrange(8)


def _set_number(rng: Random, out: bytearray, at: int, other: bytes) -> None:
    size = rng.choice(SIZES)
    number = rng.choice((*NUMBERS, len(out), len(out) - at, len(out) - at - size))
    out[at : at + size] = (number & ((1 << 8 * size) - 1)).to_bytes(size, "big")


def _set_varint(rng: Random, out: bytearray, at: int, other: bytes) -> None:
    varint = rng.choice(VARINTS)
    out[at : at + rng.choice((1, len(varint)))] = varint


def _cut(rng: Random, out: bytearray, at: int, other: bytes) -> None:
    del out[at:]


def _delete(rng: Random, out: bytearray, at: int, other: bytes) -> None:
    del out[at : at + rng.choice((1, 2, 4, 16, 64))]


def _insert(rng: Random, out: bytearray, at: int, other: bytes) -> None:
    out[at:at] = rng.randbytes(rng.choice((1, 2, 4, 16)))


def _repeat(rng: Random, out: bytearray, at: int, other: bytes) -> None:
    size = rng.choice((1, 4, 16, 64, 256))
    out[at:at] = out[at : at + size] * rng.choice((1, 2, 20))


def _graft(rng: Random, out: bytearray, at: int, other: bytes) -> None:
    begin = rng.randrange(len(other) + 1)
    size = rng.choice((4, 16, 64, len(other)))
    out[at : at + rng.choice((0, size))] = other[begin : begin + size]


DAMAGES = (
    _set_byte,
    _set_byte,
    _flip_bit,
    _flip_bit,
    _set_number,
    _set_varint,
    _cut,
    _delete,
    _insert,
    _repeat,
    _graft,
)
