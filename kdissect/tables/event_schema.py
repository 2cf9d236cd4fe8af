"""The columns of the tables `group_events` and `transaction_events`.

Both say alike when and where an event was. `tables.events` and `tables.event_columns` fill them.
"""

from kdissect.tables.column import (
    BOOL,
    INT16,
    INT32,
    INT64,
    MS,
    NO_FIELD,
    NO_NAME,
    NO_RESPONSE,
    TEXT,
    TIME,
    Column,
)

_STEP_COLUMNS = (
    Column("asked_ns", INT64, "time of the request", TIME),
    Column("time_ns", INT64, "time of the response; of the request if there is none", TIME),
    Column("api_key", INT16, "API key of the request"),
    Column("client_id", TEXT, "client id of the request", null="it names none", names="client"),
)
_PLACE_COLUMNS = (
    Column("error_code", INT16, "error in the response, 0 if there is none", null=NO_RESPONSE),
    Column("error_name", TEXT, "name of that error", null=NO_RESPONSE, names=NO_NAME),
    Column("request_packet", INT64, "packet with the first byte of the request"),
    Column("response_packet", INT64, "packet with the first byte of the response", null=NO_RESPONSE),
    Column("capture_file", TEXT, "file in which the packets count", names="capture"),
)

GROUP_EVENT_COLUMNS = (
    Column("connection", INT64, "number of the connection"),
    Column("ordinal", INT64, "number of the request on it"),
    Column(
        "event",
        TEXT,
        "`join`, `sync`, `leave`, `epoch` (a new member epoch, KIP-848) or `error` (of a heartbeat)",
        names=NO_NAME,
    ),
    *_STEP_COLUMNS,
    Column("group_id", TEXT, "name of the group", null="the request could not be decoded", names="group"),
    Column(
        "member_id",
        TEXT,
        "member; the id that the coordinator gave, if it gave one",
        null="not known yet",
        names="member",
    ),
    Column(
        "instance_id", TEXT, "group.instance.id of a static member", null="a dynamic member", names="instance"
    ),
    Column(
        "generation",
        INT32,
        "generation of the classic protocol; the member epoch with KIP-848",
        null=NO_FIELD,
    ),
    Column("leader", BOOL, "whether the member leads the group", null=f"{NO_FIELD}, or not known"),
    Column("members", INT32, "members of the group", null="only the leader is told"),
    Column("protocol", TEXT, "assignor that was chosen", null=NO_FIELD, names=NO_NAME),
    Column("reason", TEXT, "why the member joins or leaves (KIP-800)", null=NO_FIELD, names="reason"),
    Column("session_timeout_ms", INT32, "session timeout", MS, NO_FIELD),
    Column("rebalance_timeout_ms", INT32, "rebalance timeout", MS, NO_FIELD),
    *_PLACE_COLUMNS,
)

TRANSACTION_EVENT_COLUMNS = (
    Column("connection", INT64, "number of the connection"),
    Column("ordinal", INT64, "number of the request on it"),
    Column(
        "event",
        TEXT,
        "`init`, `add_partitions`, `add_offsets`, `commit_offsets`, `commit` or `abort`",
        names=NO_NAME,
    ),
    *_STEP_COLUMNS,
    Column("transactional_id", TEXT, "transactional id", null="an idempotent producer", names="transaction"),
    Column("group_id", TEXT, "group whose offsets are committed", null=NO_FIELD, names="group"),
    Column("producer_id", INT64, "producer id; -1 stays", null=NO_RESPONSE),
    Column("producer_epoch", INT16, "epoch of that producer; -1 stays", null=NO_RESPONSE),
    Column("timeout_ms", INT32, "transaction timeout", MS, NO_FIELD),
    *_PLACE_COLUMNS,
)
