"""JSON and text, good and hostile."""

import pytest

from kdissect.payload.plain_reader import looks_like_json, read_json, read_text


def test_json() -> None:
    assert looks_like_json(b' {"a": 1}')
    assert not looks_like_json(b"7")
    assert read_json(b'{"a": [1, null, "x", NaN]}') == {"a": [1, None, "x", "NaN"]}


def test_a_number_beyond_a_float_stays_as_it_is_written() -> None:
    assert read_json(b'{"at": 1e999, "to": -2.5E+400, "of": 1.5}') == {
        "at": "1e999",
        "to": "-2.5E+400",
        "of": 1.5,
    }


@pytest.mark.parametrize(
    "data", [b"{", b"\xff{}", b"[" * 100_000, b'{"a":' * 70 + b"1" + b"}" * 70, b"1" * 5000]
)
def test_json_that_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"no JSON|UTF-8|deeper|digits"):
        read_json(data)


def test_text() -> None:
    assert read_text("größer\n".encode()) == "größer\n"
    assert read_text(b"\xff") is None
    assert read_text(b"a\0b") is None
