"""`dump` with schemas and expressions: which exchanges and records are shown, and what is refused."""

import json
from pathlib import Path

import pytest

from kdissect.cli.arguments import parse
from kdissect.cli.main import main
from kdissect.cli.payload_options import schema_store
from kdissect.errors import ExitCode, UserError
from kdissect.protocol.codec.messages import encode_request, encode_response
from kdissect.protocol.records.record_decoder import Record, RecordBatch
from kdissect.protocol.records.record_encoder import encode_batch
from kdissect.spark.session import Engine
from tests.helpers.command_here import kdissect_here
from tests.helpers.handmade_capture import write_capture
from tests.payload.test_schema_registry import url

__all__ = ["url"]  # a fixture

BATCH = RecordBatch(0, 2, 0, 0, False, None)
VALUES = (b'{"amount": 5, "\\u001b[31m": {"a": []}}', b"\0\0\0\0\x11\x0e", b"\0\0\0\0\x63x", b"text")
USER = {"type": "record", "name": "User", "fields": [{"name": "id", "type": "long"}]}


@pytest.fixture
def capture(tmp_path: Path) -> str:
    talk = []
    for number, value in enumerate(VALUES):
        records = encode_batch([Record(BATCH, 0, 1000, b"k%d" % number, value)])
        header = {
            "request_api_key": 0, "request_api_version": 9, "correlation_id": number, "client_id": "me",
        }  # fmt: skip
        body = {"transactional_id": None, "acks": 1, "timeout_ms": 0, "topic_data": [
            {"name": "users", "partition_data": [{"index": 0, "records": records}]}]}  # fmt: skip
        talk.append((True, encode_request(header, body)))
        talk.append((False, encode_response(0, 9, {"correlation_id": number}, {"responses": []})))
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "17.avsc").write_text(json.dumps(USER))
    return str(write_capture(tmp_path / "talk.pcap", talk))


def dumped(capfd: pytest.CaptureFixture[str], *arguments: str, code: int = ExitCode.DONE) -> str:
    capfd.readouterr()
    assert main(["dump", *arguments]) == code
    return capfd.readouterr().out


def test_fields_are_shown(capture: str, capfd: pytest.CaptureFixture[str]) -> None:
    schemas = str(Path(capture).parent / "schemas")
    text = dumped(capfd, capture, "--records", "--schemas", schemas)
    assert "value (json)" in text
    assert "amount: 5" in text
    assert "\\x1b[31m:" in text
    assert "\x1b" not in text
    assert "value (avro, schema 17)" in text
    assert "id: 7" in text
    assert "FAULT: unknown schema id 99" in text
    assert "0x0000000063" in text  # the bytes are not lost


def test_only_exchanges_with_a_record_that_matches(capture: str, capfd: pytest.CaptureFixture[str]) -> None:
    schemas = str(Path(capture).parent / "schemas")
    for expression, numbers in (
        ("value.amount > 4", [0]),
        ("value.id = 7", [1]),
        ("value = 'text' or key = 'k0'", [0, 3]),
        ("topic = 'users' and value is null", [2]),
    ):
        lines = dumped(
            capfd, capture, "--schemas", schemas, "--where", expression, "--format", "jsonl"
        ).splitlines()
        assert [json.loads(line)["correlation_id"] for line in lines] == numbers
    dumped(capfd, capture, "--where", "key = 'nobody'", code=ExitCode.NOTHING_FOUND)


def test_refusals(capture: str, capfd: pytest.CaptureFixture[str]) -> None:
    for arguments, sentence in (
        (("--where", "amount > 4"), "is no field of a record"),
        (("--schemas", "/nowhere"), "cannot read schemas"),
        (("--schema-registry", "nowhere"), "is not the URL of a schema registry"),
        (("--where", "key = 'a'", "--anonymize"), "cannot be combined"),
        (("--schema-registry-password", "hunter2"), "is refused"),
    ):
        capfd.readouterr()
        try:
            code: object = main(["dump", capture, *arguments])
        except SystemExit as stopped:
            code = stopped.code
        assert code == 2
        text = capfd.readouterr().err
        assert sentence in text
        assert "hunter2" not in text


def test_sql_reads_schemas_from_a_registry(capture: str, url: str, engine: Engine) -> None:
    done = kdissect_here(
        "sql", "SELECT value_format, value, fault FROM records", capture,
        "--schema-registry", url, "--quiet", "--format", "jsonl", engine=engine,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert {"value_format": "avro", "value": '{"id": 7}', "fault": None} in rows
    assert len([row for row in rows if "no value of its schema" in (row["fault"] or "")]) == len(VALUES) - 1


def test_a_cluster_gets_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KDISSECT_SCHEMA_REGISTRY_PASSWORD", "me:secret")
    arguments = parse(["sql", "SELECT 1", "x.pcap", "--schema-registry", "https://registry:8081"])
    assert schema_store(arguments) is not None
    with pytest.raises(UserError, match="not sent to a cluster"):
        schema_store(arguments, local=False)
