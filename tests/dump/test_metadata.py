"""Metadata records in controller fetches of a real cluster: shown by kind, without what may be secret."""

import base64
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kdissect.cli.main import main
from kdissect.exchanges.describe import DescribeOptions, describe_request
from kdissect.protocol.codec.messages import decode_request, encode_request

CLUSTER_LIFE = str(Path(__file__).parents[2] / "captures" / "cluster-life.pcapng")


def fetched(capfdbinary: pytest.CaptureFixture[bytes], *arguments: str) -> list[dict[str, Any]]:
    command = ["dump", "--format", "jsonl", "--api", "Fetch", "--topic", "__cluster_metadata", "--records"]
    assert main([*command, *arguments, CLUSTER_LIFE]) == 0
    return [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]


def partitions(said: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for each in said:
        for topic in each["response"]["body"]["responses"]:
            assert topic["_topic_id"] == "__cluster_metadata"
            yield from topic["partitions"]


def records(said: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for partition in partitions(said):
        for batch in partition.get("_records", {}).get("batches", ()):
            yield from batch["records"]


def test_records_are_said_to_be_what_they_are(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    said = fetched(capfdbinary)
    kinds = Counter(each["_value"]["_type"] for each in records(said) if "_type" in each.get("_value", {}))
    assert {"TopicRecord", "PartitionRecord", "RegisterBrokerRecord", "UserScramCredentialRecord"} <= set(
        kinds
    )
    assert "unknown" not in kinds
    assert all(partition["records"] is None for partition in partitions(said) if "_records" in partition)
    hidden = {each["_value"]["_type"] for each in records(said) if each["_value"].get("body") == "redacted"}
    assert hidden == {"UserScramCredentialRecord", "ConfigRecord"}
    assert all(each["value"] is None for each in records(said) if each["_value"].get("body") == "redacted")


def test_only_who_asks_for_secrets_sees_them(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    bare, shown = fetched(capfdbinary), fetched(capfdbinary, "--show-secrets")
    secrets = [each["value"] for each in records(shown) if each["_value"].get("type") == 11]
    assert secrets
    assert all(base64.b64decode(value)[1] == 11 for value in secrets)
    assert not [value for value in secrets if value in json.dumps(bare)]


def test_telemetry_is_said_by_codec_and_size() -> None:
    import gzip

    header = {"request_api_key": 72, "request_api_version": 0, "correlation_id": 1, "client_id": "c"}
    body = {"client_instance_id": bytes(16), "subscription_id": 1, "terminating": False}

    def metrics(codec: int, data: bytes) -> Any:
        frame = encode_request(header, body | {"compression_type": codec, "metrics": data})
        return describe_request(decode_request(frame), DescribeOptions({}))["body"]["_metrics"]

    packed = gzip.compress(b"m" * 5000)
    assert metrics(1, packed) == {"codec": "gzip", "bytes": len(packed), "plain_bytes": 5000}
    assert metrics(0, b"abc") == {"codec": "none", "bytes": 3, "plain_bytes": 3}
    assert metrics(1, b"no gzip")["_fault"]
    assert metrics(9, b"abc")["codec"] == "codec 9"
