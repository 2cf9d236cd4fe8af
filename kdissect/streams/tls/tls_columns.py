"""The columns of the table `connections` that are about TLS; null for connections without it.

`tls_alert` is the first alert that says something is wrong, `encrypted` where it was not readable.
`tls_undecrypted_bytes` are captured bytes of records that could not be opened, for whatever reason;
`tls_decryption` says for which.
"""

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from kdissect.streams.tls.keylog import NO_KEYS
from kdissect.streams.tls.tls_session import Session, TlsFacts

NOTHING_SAID = Session(NO_KEYS).facts()
SENDERS = {True: "client", False: "server", None: None}
COLUMNS: Mapping[str, tuple[pa.DataType, Callable[[TlsFacts], Any]]] = {
    "tls_version": (pa.string(), lambda facts: facts.version),
    "tls_sni": (pa.string(), lambda facts: facts.server_name),
    "tls_alpn": (pa.string(), lambda facts: facts.protocol),
    "tls_cipher": (pa.string(), lambda facts: facts.cipher),
    "tls_outcome": (pa.string(), lambda facts: facts.outcome.value),
    "tls_alert": (pa.string(), lambda facts: facts.alert),
    "tls_alert_by": (pa.string(), lambda facts: SENDERS[facts.alert_by_client]),
    "tls_client_certificate": (pa.bool_(), lambda facts: facts.asked_certificate),
    "tls_resumed": (pa.bool_(), lambda facts: facts.resumed),
    "tls_renegotiations": (pa.int64(), lambda facts: facts.renegotiations),
    "tls_decryption": (pa.string(), lambda facts: facts.decryption.value),
    "tls_undecrypted_bytes": (pa.int64(), lambda facts: facts.undecrypted),
}


def tls_columns(facts: Mapping[int, TlsFacts], count: int) -> dict[str, pa.Array]:
    """Return the columns for the first `count` connections."""
    return {
        name: pa.array([read(facts[row]) if row in facts else None for row in range(count)], kind)
        for name, (kind, read) in COLUMNS.items()
    }
