"""`kdissect dump` on real captures: what it shows is what was sent, in order, for all who read it."""

import base64
import json
import os
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.cli.main import main
from kdissect.exchanges.filter import ExchangeFilter
from kdissect.exchanges.prescan import prescan_capture
from kdissect.exchanges.reader import ExchangeReader
from kdissect.protocol.codec.messages import encode_request, encode_response
from kdissect.protocol.schema.definition import (
    Field,
    Message,
    fields_at,
)
from kdissect.protocol.schema.registry import APIS
from tests.helpers.command import COMMAND, environment
from tests.helpers.command_here import kdissect_here

CAPTURES = Path(__file__).parents[2] / "captures"
STEADY = str(CAPTURES / "steady.pcapng")
GOLDEN = Path(__file__).parent / "golden"
MANIFEST = {each["name"]: each for each in json.loads((CAPTURES / "manifest.json").read_text())["captures"]}
VALUE_BYTES = 160  # of the records in steady.pcapng

Dump = Callable[..., list[str]]


@pytest.fixture
def dump(capfdbinary: pytest.CaptureFixture[bytes]) -> Dump:
    def run(*arguments: str) -> list[str]:
        code = main(["dump", *arguments])
        lines = capfdbinary.readouterr().out.decode().splitlines()
        assert code == (0 if lines else 1)
        return lines

    return run


def _said_of(capture: str) -> list[dict[str, Any]]:
    done = kdissect_here("dump", "--format", "jsonl", "--records", "--show-secrets", str(CAPTURES / capture))
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def steady() -> list[dict[str, Any]]:
    return _said_of("steady.pcapng")


@pytest.fixture(scope="module")
def old_broker() -> list[dict[str, Any]]:
    return _said_of("old-broker.pcap")


@pytest.mark.slow
def test_everything_is_there_once_and_in_order(steady: list[dict[str, Any]]) -> None:
    times = [said["request_first_ns"] or said["response_first_ns"] for said in steady]
    assert times == sorted(times)
    found = Counter((said["api_key"], said["api_version"]) for said in steady)
    expected = MANIFEST["steady"]["expected"]["requests"]
    for each in expected:
        assert (
            each["requests"] <= found.pop((each["api_key"], each["api_version"])) <= each["requests_at_most"]
        )
    assert not found
    assert len({(said["connection"], said["ordinal"]) for said in steady}) == len(steady)


@pytest.mark.slow
def test_nothing_is_wrong_with_what_real_clients_and_brokers_say(dump: Dump) -> None:
    for name in ("steady.pcapng", "cluster-life.pcapng"):
        said = [json.loads(line) for line in dump("--format", "jsonl", "--records", str(CAPTURES / name))]
        assert not [
            each for each in said for half in ("request", "response") if (each[half] or {}).get("fault")
        ]
        assert not [each for each in _everything(said) if "_fault" in each or each.get("_crc")]


@pytest.mark.slow
def test_what_the_objects_say_encodes_to_the_captured_bytes(steady: list[dict[str, Any]]) -> None:
    splits = index_captures(open_inputs([STEADY], "").files).splits
    reader = ExchangeReader(splits, (), prescan_capture(splits))
    for exchange, said in zip(reader.exchanges(ExchangeFilter().header_mask), steady, strict=True):
        key, version = exchange.api_key, exchange.api_version
        assert key is not None
        assert version is not None
        assert exchange.request is not None
        body = _undone(APIS[key].request, version, said["request"]["body"])
        assert encode_request(said["request"]["header"], body) == exchange.request.data
        if exchange.response:
            at = 0 if key == 18 and said["response"]["body"]["error_code"] == 35 else version
            body = _undone(APIS[key].response, at, said["response"]["body"])
            assert encode_response(key, at, said["response"]["header"], body) == exchange.response.data


def _undone(owner: Message | Field, version: int, said: dict[str, Any]) -> dict[str, Any]:
    """Turn what JSON says back into what the codec said."""
    tree = {}
    for field in fields_at(owner, version):
        if field.name in said:
            value = said[field.name]
            one = value is not None and [
                _undone_one(field, version, it) for it in (value if field.array else [value])
            ]
            tree[field.name] = None if value is None else one if field.array else one[0]
    if "_tags" in said:
        tree["_tags"] = [(tag, base64.b64decode(raw)) for tag, raw in said["_tags"]]
    return tree


def _undone_one(field: Field, version: int, value: Any) -> Any:
    if field.type == "struct":
        return None if value is None else _undone(field, version, value)
    if field.type == "uuid":
        return base64.urlsafe_b64decode(value + "==")
    return base64.b64decode(value) if field.type in ("bytes", "records") else value


def _everything(said: Any) -> Iterator[dict[str, Any]]:
    """All objects in an object."""
    if isinstance(said, dict):
        yield said
        for value in said.values():
            yield from _everything(value)
    elif isinstance(said, list):
        for value in said:
            yield from _everything(value)


def _produced(
    said: list[dict[str, Any]], client: str
) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Return what a client sent: topic, batch, record."""
    for each in said:
        if each["api_name"] != "Produce" or each["client_id"] != client:
            continue
        for topic in each["request"]["body"]["topic_data"]:
            for partition in topic["partition_data"]:
                for batch in partition["_records"]["batches"]:
                    for record in batch["records"]:
                        yield topic.get("name") or topic["_topic_id"], batch, record


def _sent(client: dict[str, Any], value: dict[str, Any]) -> str:
    """Return what the client made of a record's number: `value` in lab/clients/job.py and LabClient.java."""
    words = [f"item{(value['number'] * 31 + step * 7) % 997}" for step in range(VALUE_BYTES)]
    start = f'{{"sender":"{client["client_id"]}","number":{value["number"]},'
    if client["library"] != "java":
        return (f'{start}"at":{value["at"]},"text":"' + " ".join(words))[: VALUE_BYTES - 2] + '"}'
    text = f'{start}"text":"'
    for word in words:
        if len(text) >= VALUE_BYTES - 8:
            break
        text += f"{word} "
    return text + '"}'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("capture", "expected"),
    [
        ("steady", {"none", "gzip", "snappy", "lz4", "zstd"}),
        ("old-broker", {"none", "gzip", "snappy", "lz4"}),  # message formats 0 and 1
    ],
)
def test_records_of_every_codec_are_what_the_clients_sent(
    request: pytest.FixtureRequest, capture: str, expected: set[str]
) -> None:
    said = request.getfixturevalue(capture.replace("-", "_"))
    codecs = set()
    for client in MANIFEST[capture]["clients"]:
        if client["role"] != "produce":
            continue
        numbers: dict[str, list[int]] = {}
        for topic, batch, record in _produced(said, client["client_id"]):
            raw = base64.b64decode(record["value"])
            value = json.loads(raw)
            assert base64.b64decode(record["key"]).decode() == f"{client['client_id']}-{value['number']}"
            assert raw.decode() == _sent(client, value)
            numbers.setdefault(topic, []).append(value["number"])
            codecs.add(batch["_attributes"].split(",")[0])
        sent = client["outcome"]["records"]
        assert {topic: set(found) for topic, found in numbers.items()} == {
            topic: set(range(count)) for topic, count in sent.items()
        }
    assert codecs == expected


def test_topic_ids_have_names_although_the_first_answer_that_tells_them_comes_later(
    steady: list[dict[str, Any]],
) -> None:
    ids = [each for each in _everything(steady) if each.get("topic_id", "A" * 22) != "A" * 22]
    assert ids
    assert all("_topic_id" in each for each in ids)


@pytest.mark.slow
def test_old_message_sets_are_read_without_fault(old_broker: list[dict[str, Any]]) -> None:
    batches = [each for each in _everything(old_broker) if "message_size" in each]
    assert {batch["magic"] for batch in batches} == {0, 1}
    assert all(batch["records"] and "fault" not in batch for batch in batches)


def test_without_records_nothing_of_them_is_shown(dump: Dump) -> None:
    for form in ("text", "jsonl"):
        shown = "\n".join(dump("--format", form, "--api", "Produce", "--api", "Fetch", STEADY))
        assert "sender" not in shown
        assert "InNlbmRlciI" not in shown
        assert "orders" in shown
    assert all(
        each["records"] is None
        for line in dump("--format", "jsonl", "--api", "produce", STEADY)
        for each in _everything(json.loads(line))
        if "_records" in each
    )


FILTERS: list[tuple[list[str], Callable[[dict[str, Any]], bool]]] = [
    (["--api", "fetch", "--api", "12"], lambda said: said["api_key"] in (1, 12)),
    (["--client", "orders-*"], lambda said: said["client_id"].startswith("orders-")),
    (["--slower-than", "50ms"], lambda said: (said["latency_ns"] or 0) > 50_000_000),
    (
        ["--error", "any"],
        lambda said: any(each.get("error_code", 0) for each in _everything(said["response"])),
    ),
    (
        ["--error", "79"],
        lambda said: any(each.get("error_code") == 79 for each in _everything(said["response"])),
    ),
    (["--topic", "audit"], lambda said: '"audit"' in json.dumps(said) or "BWF1ZGl0" in json.dumps(said)),
    (["--group", "billing"], lambda said: said["api_key"] >= 8 and '"billing"' in json.dumps(said)),
]


@pytest.mark.parametrize(("arguments", "wanted"), FILTERS, ids=[" ".join(each[0]) for each in FILTERS])
def test_filters(
    arguments: list[str], wanted: Callable[[dict[str, Any]], bool], steady: list[dict[str, Any]], dump: Dump
) -> None:
    shown = {
        (said["connection"], said["ordinal"])
        for said in map(json.loads, dump("--format", "jsonl", *arguments, STEADY))
    }
    assert shown == {(said["connection"], said["ordinal"]) for said in steady if wanted(said)}
    assert shown


def test_filters_by_connection_and_time(steady: list[dict[str, Any]], dump: Dump) -> None:
    some = steady[100]
    by_number = dump("--brief", "--connection", str(some["connection"]), STEADY)
    assert by_number == dump("--brief", "--connection", some["client"], STEADY)
    assert len(by_number) == sum(said["connection"] == some["connection"] for said in steady)
    start = index_captures(open_inputs([STEADY], "").files).earliest_time_ns
    assert start is not None
    within = [said for said in steady if start + 2 * 10**9 <= said["request_first_ns"] < start + 5 * 10**9]
    assert len(dump("--brief", "--since", "+2s", "--until", "+5s", STEADY)) == len(within)
    assert dump("--brief", "--until", "2001-01-01T00:00:00+02:00", STEADY) == []


def test_limit_and_brief(dump: Dump) -> None:
    everything = dump("--brief", STEADY)
    assert dump("--brief", "--limit", "7", STEADY) == everything[:7]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--api", "Nonsense"],
        ["--error", "NO_SUCH_ERROR"],
        ["--since", "2026-05-01T12:60:00"],
        ["--since", "yesterday"],
        ["--slower-than", "50"],
        ["--limit", "0"],
    ],
)
def test_wrong_arguments_are_told_in_one_line(
    arguments: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["dump", *arguments, STEADY])
    assert stopped.value.code == 2
    assert len(capfd.readouterr().err.splitlines()) == 1


@pytest.mark.slow
def test_head_gets_its_lines_and_nobody_complains() -> None:
    command = f"{shlex.join(COMMAND)} dump {shlex.quote(STEADY)} | head -n 3; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], env=environment(), capture_output=True, text=True, check=True
    )
    assert len(done.stdout.splitlines()) == 4
    assert done.stdout.splitlines()[-1] == "0"
    assert done.stderr == ""


@pytest.mark.slow
def test_spark_is_never_loaded() -> None:
    code = (
        "import sys; from kdissect.cli.main import main; "
        f"main(['dump', '--brief', '--limit', '1', {STEADY!r}]); "
        "assert not {'pyspark', 'py4j'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-P", "-c", code], env=environment(), capture_output=True, check=True)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("join", ["--api", "JoinGroup", "--client", "trends-1", "--limit", "2"]),
        ("produce", ["--api", "Produce", "--client", "orders-zstd", "--limit", "1", "--records"]),
        ("metadata", ["--api", "Metadata", "--client", "orders-gzip", "--limit", "1"]),
        ("commit", ["--api", "OffsetCommit", "--client", "billing-1", "--limit", "1"]),
        ("errors", ["--brief", "--error", "any", "--limit", "5"]),
    ],
)
def test_golden_text(name: str, arguments: list[str], dump: Dump) -> None:
    """The text that people read. After a change that is meant, KDISSECT_GOLDEN=write makes the files anew."""
    shown = "\n".join(dump(*arguments, STEADY)) + "\n"
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("KDISSECT_GOLDEN") == "write":
        path.write_text(shown, "utf-8")
    assert shown == path.read_text("utf-8")
