"""Pseudonyms: the same for the same name and key, and none for what is not a name of the user."""

import re
from pathlib import Path

import pyarrow as pa

from kdissect.tables.anonymize import Pseudonyms
from kdissect.text import LOOPBACK_HOSTS, parse_uuid


def test_the_same_key_gives_the_same_names_and_another_key_others() -> None:
    one, same, other = Pseudonyms.new("a"), Pseudonyms.new("a"), Pseudonyms.new("b")
    assert one.name("topic", "orders") == same.name("topic", "orders")
    assert one.name("topic", "orders") != other.name("topic", "orders")
    assert one.name("topic", "orders") != one.name("client", "orders")
    assert Pseudonyms.new().name("topic", "orders") != Pseudonyms.new().name("topic", "orders")


def test_a_name_has_its_kind_and_nothing_of_the_original() -> None:
    names = Pseudonyms.new("a")
    assert re.fullmatch(r"topic-[0-9a-f]{8}", names.name("topic", "orders") or "")
    path = "/home/ann/acme.prod.pcapng.gz"
    assert re.fullmatch(r"capture-[0-9a-f]{8}\.pcapng\.gz", names.name("capture", path) or "")
    assert re.fullmatch(r"capture-[0-9a-f]{8}", names.name("capture", "acme.secret") or "")
    assert names.name("capture", Path("-").name) != "-"
    assert len({names.name("host", host) for host in LOOPBACK_HOSTS}) == 1
    assert len(parse_uuid(names.name("topic_id", "kV3-SCzWQrWjOQGfzQwfXg") or "")) == 16


def test_names_of_kafka_itself_stay() -> None:
    names = Pseudonyms.new("a")
    assert names.name("topic", "__consumer_offsets") == "__consumer_offsets"
    assert names.name("mechanism", "PLAIN") == "PLAIN"
    assert names.name("client", "__consumer_offsets") != "__consumer_offsets"
    assert names.name("client", None) is None
    assert names.name("client", "") == ""


def test_values_of_filters() -> None:
    names = Pseudonyms.new("a")
    assert names.filter_value("--topic", "orders") == names.name("topic", "orders")
    assert names.filter_value("--topic", "ord*") == "(a pattern)"
    assert names.filter_value("--broker", "10.0.0.1:9092") == f"{names.name('host', '10.0.0.1')}:9092"
    assert names.filter_value("--broker", "kafka-1") == names.name("host", "kafka-1")
    assert names.filter_value("--broker", "::1") == names.name("host", "::1")
    assert names.filter_value("--broker", "2") == "2"
    assert names.filter_value("--api", "Fetch") == "Fetch"


def test_sentences_about_files() -> None:
    path = "/captures/acme.pcapng"
    (warning,) = Pseudonyms.new("a").texts([f"{path} is cut off; acme.pcapng ends early"], [path])
    assert "acme" not in warning
    assert warning.endswith(" ends early")


def test_batches_have_pseudonyms_and_other_numbers_of_connections() -> None:
    names = Pseudonyms.new("a")
    batch = pa.record_batch(
        {
            "connection": pa.array([7, 7, 8]),
            "topic": ["orders", None, "orders"],
            "topic_id": pa.array([None] * 3, pa.string()),
            "records": [1, 2, 3],
        }
    )
    shown = names.tables({"partitions": batch})["partitions"]
    topic = names.name("topic", "orders")
    assert shown["topic"].to_pylist() == [topic, None, topic]
    assert shown["records"].to_pylist() == [1, 2, 3]
    assert shown["connection"].to_pylist() == [names.number(7), names.number(7), names.number(8)]
    assert names.number(7) != 7
