"""Real clients under TLS: what each of them did, by its own count, is found as if it had been said in plain.

How many requests of which API the broker logged is compared in `test_keylog` and `test_captures`.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.lab.scenarios.tls import FILE, PRODUCERS
from tests.spark.conftest import CAPTURES, Tables

PRODUCE, FETCH = 0, 1
RECORDS = 16  # that each producer sends
SUITES = {  # of listeners, as the broker's settings name them
    "T13A256": "TLS_AES_256_GCM_SHA384",
    "T13A128": "TLS_AES_128_GCM_SHA256",
    "T13CHACHA": "TLS_CHACHA20_POLY1305_SHA256",
    "T12GCM": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "T12CHACHA": "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "T12CBC": "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
}


def test_what_each_client_did_under_tls(whole: Callable[[Path], Tables]) -> None:
    tables = whole(CAPTURES / FILE)
    exchanges = tables["exchanges"].to_pylist()
    client_of = {(row["connection"], row["ordinal"]): row["client_id"] for row in exchanges}
    assert {row["status"] for row in exchanges} == {"answered"}
    faults = [row["fault"] for row in exchanges if row["fault"]]  # the reader left amid its last answer
    assert [fault.partition(" at ")[0] for fault in faults] == ["response: the rest of the frame is missing"]
    written: Counter[str] = Counter()
    fetched: set[tuple[int, int]] = set()
    for row in tables["partitions"].to_pylist():
        client = client_of[row["connection"], row["ordinal"]]
        if row["api_key"] == PRODUCE and row["error_code"] == 0:
            written[client] += row["records"]
        elif row["api_key"] == FETCH and row["records"]:
            assert client == "rdkafka-reader"
            fetched |= {(row["partition"], row["offset"] + place) for place in range(row["records"])}
    assert written == {client: RECORDS for client, _, _ in PRODUCERS}
    assert len(fetched) == RECORDS * len(PRODUCERS)


def test_every_suite_was_opened(whole: Callable[[Path], Tables]) -> None:
    rows = whole(CAPTURES / FILE)["connections"].to_pylist()
    assert {(row["tls_outcome"], row["tls_decryption"], row["protocol"]) for row in rows} == {
        ("completed", "whole", "kafka")
    }
    ciphers = {row["client_id"]: row["tls_cipher"] for row in rows}
    assert {client: ciphers[client] for client, _, _ in PRODUCERS} == {
        client: SUITES[listener.name] for client, _, listener in PRODUCERS
    }
