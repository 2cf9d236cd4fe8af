"""Expected columns of a message, computed from the tree that the plain codec decodes.

Written from the rules in `kdissect.protocol.columnar.program`, not from its code: recursion over dicts
instead of programs over bytes. Text and ids are bytes here, as the columns only point at them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kdissect.protocol.columnar.registers import (
    BROKER,
    INHERITED,
    MESSAGE,
    ROW,
)
from kdissect.protocol.records.batch_summary import summary_of
from kdissect.protocol.schema.definition import (
    Field,
    Message,
    fields_at,
)

MESSAGE_ROLES = {register.role: register.column for register in MESSAGE}
ROW_ROLES = {register.role: register.column for register in ROW}
NODE_ROLES = {register.role: register.column for register in BROKER}
TOPICS = {"topic", "topic_id"}


@dataclass
class Expected:
    """The values of one message."""

    message: dict[str, Any] = field(default_factory=dict)
    errors: list[int] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    nodes: list[dict[str, Any]] = field(default_factory=list)


def expect(message: Message, version: int, header: dict[str, Any], body: dict[str, Any]) -> Expected:
    """Work out what a whole message, decoded without a fault, has in the columns."""
    return Expected(
        message=_message_values(message, version, header, body),
        errors=[value for role, value in _values(message, version, body) if role == "error"],
        rows=_rows(message, version, body, {}, False),
        nodes=list(_nodes(message, version, body, None, own=True)),
    )


def _plain(value: Any) -> Any:
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value


def _present(owner: Message | Field, version: int, value: dict[str, Any]) -> Iterator[tuple[Field, Any]]:
    for each in fields_at(owner, version):
        if value.get(each.name) is not None:
            yield each, value[each.name]


def _values(owner: Message | Field, version: int, value: dict[str, Any]) -> Iterator[tuple[str | None, Any]]:
    """Return all primitives with their roles, in wire order."""
    for each, inside in _present(owner, version, value):
        for item in inside if each.array else [inside]:
            if each.type == "struct":
                yield from _values(each, version, item)
            elif item is not None:
                yield each.role, _plain(item)


def _message_values(
    message: Message, version: int, header: dict[str, Any], body: dict[str, Any]
) -> dict[str, Any]:
    own = {each.role for each in fields_at(message, version) if not each.array}
    values: dict[str, Any] = {}
    for role, value in _values(message, version, body):
        if role in MESSAGE_ROLES and role not in own and role != "client_id":
            values.setdefault(MESSAGE_ROLES[role], value)
    for each, value in _present(message, version, body):
        if each.role in MESSAGE_ROLES and not each.array:
            values[MESSAGE_ROLES[each.role]] = _plain(value)
    if header.get("client_id") is not None:
        values["client_id"] = _plain(header["client_id"])
    return values


def _rows(
    owner: Message | Field, version: int, value: dict[str, Any], around: dict[str, Any], in_topic: bool
) -> list[dict[str, Any]]:
    roles = {each.role for each in fields_at(owner, version) if each.role and not each.array}
    topic, partition = bool(roles & TOPICS), "partition" in roles
    row = dict(around)
    if topic or (partition and not in_topic):
        row = {role: row[role] for role in INHERITED if role in row}
    elif partition:
        row = {role: known for role, known in row.items() if role not in roles}
    rows: list[dict[str, Any]] = []
    for each, inside in _present(owner, version, value):
        if each.array or each.type == "struct":
            for item in inside if each.array else [inside]:
                rows += _element_rows(each, version, item, row, in_topic or topic)
        elif each.role in ROW_ROLES and (topic or partition):
            _set(row, each.role, _plain(inside))
        elif each.role in INHERITED and not in_topic:
            row[each.role] = inside
    if partition or (not rows and topic and TOPICS & row.keys()):
        rows.append(row)
    return rows


def _element_rows(
    each: Field, version: int, item: Any, row: dict[str, Any], in_topic: bool
) -> list[dict[str, Any]]:
    if each.type == "struct":
        return _rows(each, version, item, row, in_topic)
    lent = row if in_topic else {role: row[role] for role in INHERITED if role in row}
    if each.role in TOPICS and item is not None:
        return [{role: row[role] for role in INHERITED if role in row} | {each.role: _plain(item)}]
    return [lent | {"partition": item}] if each.role == "partition" else []


def _set(row: dict[str, Any], role: str, value: Any) -> None:
    row[role] = row.get(role) or value if role == "error" else value
    if role == "records":
        summary = summary_of(value)
        if summary["magic"] == 2:
            row.update(producer_id=summary["producer_id"], producer_epoch=summary["producer_epoch"])


def _nodes(
    owner: Message | Field, version: int, value: dict[str, Any], node_id: int | None, own: bool
) -> Iterator[dict[str, Any]]:
    direct = {each.role: inside for each, inside in _present(owner, version, value) if not each.array}
    roles = {each.role for each in fields_at(owner, version) if not each.array}
    for each, inside in _present(owner, version, value):
        if each.type == "struct":
            lent = node_id if own or "broker" not in direct else direct["broker"]
            for item in inside if each.array else [inside]:
                yield from _nodes(each, version, item, lent, own=False)
    node_id = direct.get("broker", node_id)
    if {"host", "port"} <= roles and node_id is not None:
        known = {"broker": node_id} | {role: direct[role] for role in ("host", "port") if role in direct}
        yield {NODE_ROLES[role]: _plain(inside) for role, inside in known.items()}
