"""Columns about TLS: null where a connection has none."""

from kdissect.streams.tls.tls_columns import COLUMNS, NOTHING_SAID, tls_columns
from kdissect.streams.tls.tls_session import Decryption, HandshakeOutcome


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
