"""The columns of the table `connections`; `tables.schemas` says what a column is and who reads this."""

from kdissect.tables.column import (
    BOOL,
    BYTES,
    INT32,
    INT64,
    NO_NAME,
    NO_SASL,
    NO_TLS,
    NS,
    TEXT,
    TIME,
    Column,
)


def _acknowledged(receiver: str) -> tuple[Column, ...]:
    """Return the columns about data to the `receiver` and its acknowledgments."""
    none = "nothing was timed"
    trip = f"round trip from data to an acknowledgment without data by the {receiver}"
    return (
        Column(
            f"unacknowledged_bytes_to_{receiver}",
            INT64,
            f"bytes to the {receiver} that it had not acknowledged at the end",
            BYTES,
        ),
        Column(f"{receiver}_acks", INT64, f"timed acknowledgments of the {receiver}, one segment at a time"),
        Column(f"{receiver}_ack_min_ns", INT64, f"shortest {trip}", NS, none),
        Column(f"{receiver}_ack_mean_ns", INT64, f"mean {trip}", NS, none),
        Column(f"{receiver}_ack_max_ns", INT64, f"longest {trip}", NS, none),
    )


CONNECTION_COLUMNS = (
    Column("connection", INT64, "number of the connection; it depends only on both ends and the first time"),
    Column("client_host", TEXT, "address of the client", names="host"),
    Column("client_port", INT32, "port of the client"),
    Column("server_host", TEXT, "address of the server", names="host"),
    Column("server_port", INT32, "port of the server"),
    Column("first_time_ns", INT64, "time of the first packet in the capture", TIME),
    Column("last_time_ns", INT64, "latest time of any packet", TIME),
    Column(
        "opened",
        TEXT,
        "`handshake`: its SYN was captured; `midstream`: it is older than the capture",
        names=NO_NAME,
    ),
    Column(
        "closed",
        TEXT,
        "how it ended first: `fin`, `rst`, or `open` if the capture has no end of it",
        names=NO_NAME,
    ),
    Column(
        "protocol",
        TEXT,
        "`kafka`, `kafka-0.7`, `tls` (not decrypted, or not Kafka inside) or `unknown`",
        names=NO_NAME,
    ),
    Column("packets", INT64, "packets; a packet that was captured twice counts once"),
    Column("bytes_to_server", INT64, "TCP payload sent by the client, retransmissions included", BYTES),
    Column("bytes_to_client", INT64, "TCP payload sent by the server, retransmissions included", BYTES),
    Column("cut_bytes", INT64, "part of both that the capture cut off (snap length)", BYTES),
    Column("retransmitted_segments", INT64, "segments that repeat captured bytes"),
    Column("conflicting_segments", INT64, "retransmissions with other bytes; the first copy counts"),
    Column("out_of_order_segments", INT64, "segments that came after later ones"),
    Column("lost_bytes", INT64, "bytes that were sent and are not in the capture", BYTES),
    Column("skipped_bytes", INT64, "captured bytes that belong to no complete message", BYTES),
    Column("oversized_frames", INT64, "size fields beyond the limit `frame`"),
    Column("overfull_holes", INT64, "gaps given up because more than the limit `ahead` waited behind them"),
    Column(
        "overheld_waits", INT64, "times it gave up waiting because its task held more than the limit `held`"
    ),
    Column("zero_windows", INT64, "packets with a receive window of zero"),
    Column("duplicate_packets", INT64, "packets that were captured again"),
    Column(
        "server_rtt_ns",
        INT64,
        "round trip to the server, SYN to SYN-ACK",
        NS,
        "the handshake was not captured",
    ),
    Column(
        "client_rtt_ns",
        INT64,
        "round trip to the client, SYN-ACK to ACK",
        NS,
        "the handshake was not captured",
    ),
    Column(
        "closed_by",
        TEXT,
        "who sent the first FIN or RST: `client` or `server`",
        null="nobody did",
        names=NO_NAME,
    ),
    Column("closed_ns", INT64, "time of that packet", TIME, "as `closed_by`"),
    *_acknowledged("server"),
    *_acknowledged("client"),
    Column("client_id", TEXT, "first client id of its requests", null="no request names one", names="client"),
    Column(
        "client_software_name",
        TEXT,
        "client software, from ApiVersions",
        null="the client does not say",
        names=NO_NAME,
    ),
    Column(
        "client_software_version",
        TEXT,
        "version of it, from ApiVersions",
        null="the client does not say",
        names=NO_NAME,
    ),
    Column("sasl_mechanism", TEXT, "SASL mechanism that the client chose", null=NO_SASL, names="mechanism"),
    Column(
        "sasl_user",
        TEXT,
        "user that the first token of PLAIN or SCRAM names",
        null=f"{NO_SASL}, or the token names none",
        names="user",
    ),
    Column("requests", INT64, "Kafka requests"),
    Column("responses", INT64, "Kafka responses"),
    Column("unanswered", INT64, "requests without a response that was due"),
    Column("orphan_responses", INT64, "responses whose request was not captured"),
    Column("faults", INT64, "exchanges that could not be decoded in full"),
    Column("sasl_outcome", TEXT, "`succeeded`, `failed` or `unfinished`", null=NO_SASL, names=NO_NAME),
    Column("sasl_error", TEXT, "name of the first SASL error", null="no error code was sent", names=NO_NAME),
    Column("sasl_reauthentications", INT64, "later authentications (KIP-368)", null=NO_SASL),
    Column("tls_version", TEXT, "such as `TLS 1.3`", null=f"{NO_TLS}, or no server hello", names=NO_NAME),
    Column(
        "tls_sni",
        TEXT,
        "host name that the client asked for",
        null=f"{NO_TLS}, or the client named none",
        names="host",
    ),
    Column(
        "tls_alpn",
        TEXT,
        "application protocol that the server chose (ALPN)",
        null=f"{NO_TLS}, or none was",
        names=NO_NAME,
    ),
    Column("tls_cipher", TEXT, "cipher suite", null=f"{NO_TLS}, or no server hello", names=NO_NAME),
    Column(
        "tls_outcome",
        TEXT,
        "`completed`; `failed`: an alert ended it; `unanswered`: the server sent no hello; `unfinished`; "
        "`not_seen`: the connection is older than the capture",
        null=NO_TLS,
        names=NO_NAME,
    ),
    Column(
        "tls_alert",
        TEXT,
        "first alert that reports a problem; `encrypted` if it cannot be read without keys",
        null=f"{NO_TLS}, or no such alert",
        names=NO_NAME,
    ),
    Column(
        "tls_alert_by",
        TEXT,
        "who sent it: `client_label` or `server_label`",
        null="no such alert",
        names=NO_NAME,
    ),
    Column(
        "tls_client_certificate",
        BOOL,
        "whether the server asked for a client certificate",
        null=f"{NO_TLS}, or TLS 1.3 without keys, which hides it",
    ),
    Column("tls_resumed", BOOL, "whether the session was resumed", null=f"{NO_TLS}, or no server hello"),
    Column("tls_renegotiations", INT64, "handshakes after the first one", null=NO_TLS),
    Column(
        "tls_decryption",
        TEXT,
        "`whole`; `partly`: some records are incomplete; `failed`: the keys do not fit; `no_keys`; "
        "`no_handshake`: it was not captured; `unsupported`: version or cipher suite",
        null=NO_TLS,
        names=NO_NAME,
    ),
    Column(
        "tls_undecrypted_bytes", INT64, "captured bytes of records that were not decrypted", BYTES, NO_TLS
    ),
)
