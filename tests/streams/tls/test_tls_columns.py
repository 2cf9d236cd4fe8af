"""Columns about TLS: null where a connection has none."""

from pathlib import Path

import pytest

from kdissect.streams.flow_state import KAFKA, TLS, TLS_PASSED
from kdissect.streams.tls.decrypt_stage import new_flow_processor
from kdissect.streams.tls.keylog import NO_KEYS
from kdissect.streams.tls.tls_columns import COLUMNS, NOTHING_SAID, tls_columns, with_tls
from kdissect.streams.tls.tls_state import Decryption, HandshakeOutcome
from tests.helpers.followed import VERSIONS
from tests.helpers.tls_ends import Kind
from tests.streams.tls.test_decrypt_stage import V13, talk, wire_of


def test_rows_without_tls_are_null() -> None:
    facts = NOTHING_SAID._replace(
        version="TLSv1.3",
        outcome=HandshakeOutcome.FAILED,
        alert="bad_certificate",
        alert_by_client=True,
        decryption=Decryption.NO_KEYS,
        undecrypted=7,
    )
    columns = tls_columns({1: facts}, 3)
    assert columns.keys() == COLUMNS.keys()
    rows = {name: column.to_pylist() for name, column in columns.items()}
    assert all(values[0] is values[2] is None for values in rows.values())
    assert rows["tls_version"][1] == "TLSv1.3"
    assert rows["tls_outcome"][1] == "failed"
    assert (rows["tls_alert"][1], rows["tls_alert_by"][1]) == ("bad_certificate", "client")
    assert (rows["tls_decryption"][1], rows["tls_undecrypted_bytes"][1]) == ("no_keys", 7)


def test_a_session_that_said_nothing_is_not_seen() -> None:
    rows = tls_columns({0: NOTHING_SAID}, 1)
    assert rows["tls_outcome"].to_pylist() == ["not_seen"]
    assert rows["tls_alert_by"].to_pylist() == [None]


@pytest.mark.parametrize("with_keys", [True, False])
def test_requests_are_counted_of_the_plaintext_and_bytes_of_the_records(
    tmp_path: Path, with_keys: bool
) -> None:
    ends, keys = talk(Kind(V13), tmp_path)
    splits, pieces = wire_of(ends, tmp_path).splits()
    processor = new_flow_processor(splits, VERSIONS, keys if with_keys else NO_KEYS)
    for piece in pieces:
        for _ in processor.feed(piece):
            pass
    for _ in processor.close():
        pass
    connections, directions, facts = with_tls(processor)
    sent = [sum(len(flight) for side, flight in ends.flights if side == sender) for sender in (0, 1)]
    assert directions["payload_bytes"].tolist() == sent
    assert facts.keys() == {0}
    if with_keys:
        assert connections["protocol"].tolist() == [KAFKA]
        assert (connections["requests"][0], connections["responses"][0]) == (12, 12)
        assert facts[0].decryption == Decryption.WHOLE
    else:
        assert connections["protocol"][0] in (TLS, TLS_PASSED)
        assert connections["requests"][0] == 0
        assert facts[0].undecrypted > 0
