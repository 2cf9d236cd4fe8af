"""The readers of the brokers' and clients' logs, on lines as each release and library writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab import clientlog, requestlog

MODERN = (
    "Completed "
    'request:{"isForwarded":false,"requestHeader":{"requestApiKey":0,"requestApiVersion":10,"correlationId":'
    "4,"
    '"clientId":"shop","requestApiKeyName":"PRODUCE"},"request":{"acks":%d,"topicData":[]},"response":'
    '{"responses":[{'
    '"name":"t","partitionResponses":[{"index":0,"errorCode":6},{"index":1,"errorCode":0}]}],'
    '"throttleTimeMs":0},'
    '"connection":"127.0.0.1:20364-127.0.0.1:34730-0-1","totalTimeMs":4.1}\n'
)
FORWARDED = (
    "Completed "
    'request:{"isForwarded":true,"requestHeader":{"requestApiKey":19,"requestApiVersion":2,"correlationId":8,'
    '"clientId":"lab","requestApiKeyName":"CREATE_TOPICS"},"connection":"127.0.0.1:2-127.0.0.1:3-0-1"}\n'
)
OLD = (
    "Completed request:{api_key=0,api_version=2,correlation_id=3,client_id=shop} -- {acks=%d,timeout=30000} "
    "from connection 127.0.0.1:29914-127.0.0.1:59558;totalTime:41,requestQueueTime:1\n"
)


def read(tmp_path: Path, text: str, start: int = 0) -> list[requestlog.Served]:
    log = tmp_path / "requests.log"
    log.write_text(text)
    return requestlog.read({log: start})


def test_modern_line(tmp_path: Path) -> None:
    (served,) = read(tmp_path, MODERN % 1)
    assert served[:4] == (0, "Produce", 10, 4)
    assert (served.client_id, served.server_port, served.answered) == ("shop", 20364, True)
    assert served.errors == (6,)


def test_old_line(tmp_path: Path) -> None:
    (served,) = read(tmp_path, OLD % 1)
    assert served[:4] == (0, "Produce", 2, 3)
    assert (served.client_id, served.server_port, served.answered) == ("shop", 29914, True)
    assert served.errors is None


@pytest.mark.parametrize("line", [MODERN, OLD])
def test_produce_without_acks_has_no_answer(tmp_path: Path, line: str) -> None:
    (served,) = read(tmp_path, line % 0)
    assert not served.answered


def test_forwarded_request_travelled_in_an_envelope(tmp_path: Path) -> None:
    (served,) = read(tmp_path, FORWARDED)
    assert (served.api_key, served.api_name) == (58, "Envelope")


def test_only_what_is_new_is_read(tmp_path: Path) -> None:
    first, second = MODERN % 1, MODERN % 0
    (served,) = read(tmp_path, first + second, start=len(first))
    assert not served.answered


@pytest.mark.parametrize(
    ("library", "line", "request_"),
    [
        (
            "librdkafka",
            "SEND| [a#b-1] [thrd:x]: x:1/1: Sent OffsetCommitRequest (v9, 1 bytes @ 0, CorrId 2)",
            ("offsetcommit", 9),
        ),
        (
            "librdkafka",
            "SEND| [a#b-1] [thrd:x]: x:1/1: Sent ApiVersionRequest (v3, 6 bytes @ 0, CorrId 1)",
            ("apiversions", 3),
        ),
        (
            "java",
            ("NetworkClient [Producer clientId=a] Sending LIST_OFFSETS request with header "
"RequestHeader(apiKey=LIST_OFFSETS, "
            "apiVersion=11, clientId=a, correlationId=5, headerVersion=2) and timeout 30000 to node 1: "
"X(apiVersion=99)"),
            ("listoffsets", 11),
        ),
        (
            "kafka-python",
            ("kafka.net.connection <KafkaConnection node_id=1> Request 3: OffsetFetchRequest(version=8, "
"group_id='g')"),
            ("offsetfetch", 8),
        ),
        (
            "aiokafka",
            "aiokafka.conn Request to 127.0.0.1:1 4: OffsetRequest_v3(replica_id=-1)",
            ("listoffsets", 3),
        ),
    ],
)  # fmt: skip
def test_client_line(tmp_path: Path, library: str, line: str, request_: tuple[str, int]) -> None:
    log = tmp_path / "client.log"
    log.write_text(
        f"something else\n{line}\n{line.replace('Request', 'Response').replace('Sen', 'Receiv')}\n"
    )
    assert clientlog.sent(library, log) == {request_: 1}


def test_names_meet_in_one_spelling() -> None:
    assert clientlog.folded_name("OFFSET_COMMIT") == clientlog.folded_name("OffsetCommit")
