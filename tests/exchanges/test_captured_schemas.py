"""Confluent's own serializers, recorded with their registry: decoded from the capture alone."""

import csv
import io
import json
from typing import Any

import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.cli.main import main
from kdissect.errors import ExitCode
from kdissect.exchanges.captured_schemas import CapturedSchemas
from kdissect.spark.session import Engine
from tests.helpers.command_here import kdissect_here
from tests.helpers.registry_recording import COUNT, Recording, record_serializers
from tests.helpers.registry_server import FIRST_ID

AVRO_SEVEN = {"id": 7, "amount": "10.50", "items": [{"sku": "s7"}], "note": "n7"}
VALUES = {
    "avro": AVRO_SEVEN,
    "guids": AVRO_SEVEN | {"note": None},
    "protobuf": {"id": 2**40 + 7, "tags": ["a", "t7"]},
    "json": {"id": 7, "customer": {"name": "c7", "score": 1.75}},
}


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return record_serializers(tmp_path_factory.mktemp("serializers") / "serializers.pcap")


def json_rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.slow
def test_the_capture_has_all_schemas(recording: Recording) -> None:
    splits = index_captures(open_inputs([str(recording.path)], "").files, 1 << 20).splits
    schemas = CapturedSchemas(splits)
    for known in recording.registry.schemas:
        assert schemas.by_id(known["id"]) is not None
    assert not schemas.is_empty
    assert schemas.by_id(FIRST_ID - 1) is None
    assert CapturedSchemas(splits, recording.kafka_ports).is_empty


@pytest.mark.slow
def test_a_dump_shows_all_formats(recording: Recording, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = [str(recording.path), "--api", "Produce", "--where", "key = 'k7'", "--format", "jsonl"]
    assert main(["dump", *arguments]) == ExitCode.DONE
    values = {}
    for exchange in json_rows(capfd.readouterr().out):
        (topic,) = exchange["request"]["body"]["topic_data"]
        (partition,) = topic["partition_data"]
        for batch in partition["_records"]["batches"]:
            for record in batch["records"]:
                values[topic["name"]] = record["_value"]
    assert {topic: note["fields"] for topic, note in values.items()} == VALUES
    guid = next(one["guid"] for one in recording.registry.schemas if one["subject"] == "guids-value")
    assert (values["guids"]["schema_guid"], values["avro"]["schema_id"]) == (guid, FIRST_ID + 1)


@pytest.mark.thorough
def test_sql_names_fields_of_both_versions(recording: Recording, engine: Engine) -> None:
    query = (
        "SELECT value_schema, value_struct.id, value_struct.amount * 2 AS twice, value_struct.note, "
        "value_struct, fault "
        "FROM records WHERE api_key = 0 AND value_struct.items[0].sku IN ('s1', 's7') ORDER BY 2"
    )
    how = ("sql", query, recording.path, "--quiet", "--format", "jsonl")
    done = kdissect_here(*how, "--topic", "avro", engine=engine)
    assert done.returncode == 0, done.stderr
    assert json_rows(done.stdout) == [
        {
            "value_schema": FIRST_ID, "id": 1, "twice": 3.0, "note": None, "fault": None,
            "value_struct": {"id": 1, "amount": 1.5, "items": [{"sku": "s1"}], "note": None},
        },
        {
            "value_schema": FIRST_ID + 1, "id": 7, "twice": 21.0, "note": "n7", "fault": None,
            "value_struct": {"id": 7, "amount": 10.5, "items": [{"sku": "s7"}], "note": "n7"},
        },
    ]  # fmt: skip
    for topic, sentence in (("nobody", "there is no value_struct"), ("a*", "need --topic")):
        done = kdissect_here(*how, "--topic", topic, engine=engine)
        assert done.returncode == ExitCode.USER_ERROR
        assert sentence in done.stderr


def test_export_asks_a_registry(recording: Recording, engine: Engine) -> None:
    ports = [f"--port={port}" for port in recording.kafka_ports]  # without the registry's traffic
    with recording.registry as registry:
        done = kdissect_here(
            "export", recording.path, "--table", "records", "--out", "-", "--format", "csv", "--quiet",
            "--api", "Produce", "--schema-registry", registry.url, *ports, engine=engine,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert len(rows) == COUNT * len(VALUES)
    assert {row["fault"] for row in rows} == {""}
    seventh = {row["topic"]: json.loads(row["value"]) for row in rows if row["key"] == "k7"}
    assert seventh == VALUES
