"""Values of options that several commands share."""

import argparse
from pathlib import Path

import pytest

from kdissect.cli.options import (
    add_anonymize,
    add_common,
    count_argument,
    port_argument,
    positive_argument,
    pseudonyms_of,
    size_argument,
)


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (port_argument, "9092", 9092),
        (size_argument, "32m", 32 << 20),
        (count_argument, "65536", 65536),
        (positive_argument, "1000000", 1_000_000),
    ],
)
def test_good_values(read: object, text: str, value: int) -> None:
    assert callable(read)
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "text", "words"),
    [
        (port_argument, "0", "not a TCP port"),
        (port_argument, "٩", "not a TCP port"),
        (size_argument, "-1", "not a size"),
        (count_argument, "65537", "not a number from 1 to 65536"),
        (positive_argument, "0", "not a number above 0"),
    ],
)
def test_wrong_values_are_one_sentence(read: object, text: str, words: str) -> None:
    assert callable(read)
    with pytest.raises(argparse.ArgumentTypeError, match=words):
        read(text)


@pytest.mark.parametrize(
    "master", ["local", "local[*]", "local[2]", "spark://h:7077", "yarn", "sc://h:15002"]
)
def test_masters(master: str) -> None:
    parser = argparse.ArgumentParser()
    add_common(parser)
    assert parser.parse_args(["--master", master, "x"]).master == master


def test_pseudonyms_only_on_request(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    add_anonymize(parser)
    assert pseudonyms_of(parser.parse_args([])) is None
    key = tmp_path / "key"
    key.write_text("k\n")
    key.chmod(0o600)
    same = [pseudonyms_of(parser.parse_args(["--anonymize-key-file", str(key)])) for _ in range(2)]
    others = [pseudonyms_of(parser.parse_args(["--anonymize"])) for _ in range(2)]
    assert len({some.name("topic", "orders") for some in same if some}) == 1
    assert len({some.name("topic", "orders") for some in others if some}) == 2
