"""Compile the schema: one message in one version becomes a short program of integers, which `walk` runs.

A program is a table of integers, one instruction per row: an operation (`Op`) and up to four numbers. It says
how to step over every field, header first, and which values to keep in which register (see `registers`).
Fields without a role that is kept are stepped over, but never unchecked. Next to the table stands the path of
the field that each row reads, so a fault found in a row can name its field.

Three rules decide what is a row of the partitions table:
- A struct that has a partition number is one, and so is each element of an array of partition numbers. It is
  emitted at the end of the struct, when all its fields are known.
- A struct that names a topic, and each element of an array of topic names, lends the name to the partitions
  inside. If there are none, it is a row itself, unless the name is null.
- Only the fields of a struct itself count: the leader's epoch is not the partition's. The
  fields of INHERITED may come from the structs around as well.
A node is a struct with a host and a port, and a node id of its own or of an array element around it.

The row has the first error code of its struct that is not 0, if there are several.

A value of the whole message is the message's own field if it has one with that role, else the first that
comes.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.columnar.assembler import NOT_KNOWN, Assembler, Op, Prefix, Program
from kdissect.protocol.columnar.registers import (
    BROKER,
    BROKER_SLOTS,
    INHERITED,
    MESSAGE,
    MESSAGE_SLOTS,
    MESSAGE_WIDTH,
    ROW,
    ROW_SLOTS,
    ROW_VALUES,
)
from kdissect.protocol.schema.definition import EMPTY_ARRAY
from kdissect.protocol.schema.registry import (
    APIS,
    MESSAGES,
    Field,
    Message,
    fields_at,
    request_header_version,
    response_header_version,
)


def compile_message(key: int, version: int, response: bool) -> Program:
    """Return the program of a request or a response in one version, header included.

    An answer of ApiVersions in a version that is not known has one too, since it may be of version 0.

    >>> print(show(compile_message(12, 0, response=True)))
    0 SKIP 4 0 0 0 header.correlation_id
    1 ERROR 2 -1 -1 0 error_code
    2 END 0 0 0 0
    """
    api = APIS[key]
    message = api.response if response else api.request
    assembler = Assembler()
    _compile_header(assembler, key, version, response)
    falls_back = response and key == ApiKey.API_VERSIONS and version > 0
    if falls_back:
        fallback = assembler.add(Op.FALLBACK, "error_code")
    if version in message.versions:
        _compile_body(assembler, message, version)
    else:
        assembler.add(Op.END, "", NOT_KNOWN)
    if falls_back:  # a broker that does not know the version answers in version 0 (KIP-511)
        assembler.set(fallback, 0, assembler.here)
        _compile_body(assembler, message, 0)
    return assembler.program()


def compile_fields(key: int, version: int, response: bool, slots: Mapping[str, int]) -> Program:
    """Return a program that keeps fields by their path instead of by role, and no rows.

    `slots` has the register of each path. The register of an array gets a span of no bytes where the count
    stands.

    >>> print(show(compile_fields(12, 0, True, {"error_code": 3})))
    0 SKIP 4 0 0 0 header.correlation_id
    1 ERROR 2 3 -1 0 error_code
    2 END 0 0 0 0
    """
    api = APIS[key]
    assembler = Assembler()
    _compile_header(assembler, key, version, response, {})
    _compile_body(assembler, api.response if response else api.request, version, slots)
    return assembler.program()


class _Scope(NamedTuple):
    """Facts that a field's surroundings decide."""

    path: str
    depth: int  # of loops and tagged sections
    version: int
    flexible: bool
    own: bool  # the fields are the message's own, not of a struct or array in it
    taken: frozenset[str]  # roles that the message has a field of its own for
    topic: bool = False  # inside a struct that names a topic
    row: bool = False  # the struct is a topic or a partition
    inherited: frozenset[str] = frozenset()  # roles of INHERITED that structs around have
    node_around: bool = False  # an array element around has a node id
    node: bool = False  # the struct has a part of a node
    slots: Mapping[str, int] | None = None  # what is kept by path; None: by role

    def inside(self, field: Field) -> "_Scope":
        return self._replace(path=self._join(field.name), depth=self.depth + 1, own=False)

    def _join(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def path_of(self, field: Field) -> str:
        return self._join(field.name)


def _compile_header(
    assembler: Assembler, key: int, version: int, response: bool, slots: Mapping[str, int] | None = None
) -> None:
    name = "ResponseHeader" if response else "RequestHeader"
    message = MESSAGES[name]
    header = (response_header_version if response else request_header_version)(key, version)
    scope = _Scope("header", 0, header, header in message.flexible, own=True, taken=frozenset(), slots=slots)
    _compile_struct(assembler, message, scope)


def _compile_body(
    assembler: Assembler, message: Message, version: int, slots: Mapping[str, int] | None = None
) -> None:
    own = frozenset(field.role for field in fields_at(message, version) if field.role and not field.array)
    scope = _Scope(
        "", 0, version, version in message.flexible, own=True, taken=own | {"client_id"}, slots=slots
    )
    _compile_struct(assembler, message, scope)
    assembler.add(Op.END, "", len(EMPTY_ARRAY) if version in message.trailing else 0)


def _compile_struct(assembler: Assembler, owner: Message | Field, scope: _Scope) -> None:
    fields = fields_at(owner, scope.version)
    by_role = scope.slots is None
    roles = {field.role for field in fields if field.role and not field.array and by_role}
    names_topic, is_partition = bool(roles & TOPIC_ROLES), "partition" in roles
    is_node = roles >= LISTENER and ("broker" in roles or scope.node_around)
    names_node = "broker" in roles and (is_node or _has_listeners(fields))
    scope = scope._replace(
        row=names_topic or is_partition,
        topic=scope.topic or names_topic,
        inherited=scope.inherited | (roles & set(INHERITED)),
        node=is_node or names_node,
        node_around=scope.node_around or (names_node and not scope.own),
    )
    if scope.row or scope.node:
        forget = _forgotten(roles, scope, names_topic, is_partition)
        assembler.add(Op.ENTER, scope.path, forget, int(names_topic))
    for field in fields:
        if field.tag is None:
            _compile_field(assembler, field, scope)
    if scope.flexible:
        _compile_tags(assembler, [field for field in fields if field.tag is not None], scope)
    if is_partition:
        assembler.add(Op.ROW, scope.path)
    if names_topic:
        assembler.add(Op.TOPIC, scope.path)
    if is_node:
        assembler.add(Op.NODE, scope.path)


def _has_listeners(fields: Iterable[Field]) -> bool:
    return any(field.array and {child.role for child in field.fields} >= LISTENER for field in fields)


def _forgotten(roles: Iterable[str], scope: _Scope, names_topic: bool, is_partition: bool) -> int:
    """Return a bit for each register that is empty when a struct begins.

    These are the registers of its own roles; a topic also empties all that it does not inherit.
    """
    forgotten = set(roles) & BROKER_ROLES if scope.node else set()
    if names_topic or (is_partition and not scope.topic):
        forgotten |= ROW_REGISTERS.keys() - scope.inherited
    elif is_partition:
        forgotten |= set(roles) & ROW_REGISTERS.keys()
        if "records" in roles:  # a batch names its producer
            forgotten |= set(INHERITED)
    return sum(1 << (KEEP_TOO[role] - MESSAGE_WIDTH) for role in forgotten)


def _compile_field(assembler: Assembler, field: Field, scope: _Scope) -> None:
    if field.array:
        _compile_array(assembler, field, scope)
    elif field.type == "struct":
        _compile_option(assembler, field, scope)
    else:
        _compile_value(assembler, field, scope, _keeps(field, scope))


def _compile_option(assembler: Assembler, field: Field, scope: _Scope) -> None:
    nullable = scope.version in field.nullable
    option = assembler.add(Op.OPTION, scope.path_of(field)) if nullable else -1
    _compile_struct(assembler, field, scope.inside(field))
    if nullable:
        assembler.set(option, 0, assembler.here)


def _compile_array(assembler: Assembler, field: Field, scope: _Scope) -> None:
    path = scope.path_of(field)
    prefix = Prefix.VARINT if scope.flexible else Prefix.INT32
    smallest = _smallest(field, scope.version, scope.flexible)
    if scope.slots and path in scope.slots:
        assembler.add(Op.FIXED, path, 0, scope.slots[path], -1, 0)
    start = assembler.add(Op.ARRAY, path, prefix, 0, smallest, scope.depth)
    _compile_element(assembler, field, scope)
    element = assembler.rows[start + 1 :]
    if all(row[0] == Op.SKIP for row in element):
        assembler.taken_back(start)
        assembler.add(Op.STEP, path, prefix, smallest)
        return
    assembler.add(Op.NEXT, path, start + 1, 0, 0, scope.depth)
    assembler.set(start, 1, assembler.here)


def _compile_element(assembler: Assembler, field: Field, scope: _Scope) -> None:
    inside = scope.inside(field)
    if field.type == "struct":
        _compile_struct(assembler, field, inside)
    elif scope.slots is not None:
        _compile_value(assembler, field, scope, _Keeps(-1, -1, 0))
    elif field.role in TOPIC_ROLES:
        assembler.add(Op.ENTER, scope.path_of(field), _forgotten((), scope, True, False), 1)
        _compile_value(assembler, field, scope, _Keeps(-1, KEEP_TOO[field.role], 0))
        assembler.add(Op.TOPIC, scope.path_of(field))
    elif field.role == "partition":
        if not scope.topic:
            assembler.add(Op.ENTER, scope.path_of(field), _forgotten((), scope, False, True), 0)
        _compile_value(assembler, field, scope, _Keeps(-1, KEEP_TOO[field.role], 0))
        assembler.add(Op.ROW, scope.path_of(field))
    else:
        _compile_value(assembler, field, scope, _keeps(field, inside._replace(row=False, node=False)))


class _Keeps(NamedTuple):
    """The registers that a value goes to, and whether only the first value counts."""

    message: int
    row: int
    first: int


def _keeps(field: Field, scope: _Scope) -> _Keeps:
    if scope.slots is not None:
        return _Keeps(scope.slots.get(scope.path_of(field), -1), -1, 0)
    role = field.role or ""
    wanted = role in MESSAGE_REGISTERS and (scope.own or role not in scope.taken)
    message = MESSAGE_REGISTERS[role] if wanted else -1
    lends = role in INHERITED and not scope.topic
    row = role in ROW_REGISTERS and (scope.row or (lends and role in scope.inherited))
    node = role in BROKER_ROLES and scope.node
    return _Keeps(message, KEEP_TOO[role] if row or node else -1, int(not scope.own))


def _compile_value(assembler: Assembler, field: Field, scope: _Scope, keeps: _Keeps) -> None:
    path = scope.path_of(field)
    kept = keeps.message >= 0 or keeps.row >= 0
    if field.type in PREFIXES:
        prefix = PREFIXES[field.type][scope.flexible]
        op = Op.RECORDS if field.role == "records" and keeps.row >= 0 else Op.SIZED
        assembler.add(op, path, prefix, *keeps)
    elif field.role == "error":
        assembler.add(Op.ERROR, path, SIZES[field.type], *keeps)
    elif not kept:
        assembler.add(Op.SKIP, path, abs(SIZES[field.type]))
    elif field.type == "uuid":
        assembler.add(Op.FIXED, path, SIZES[field.type], *keeps)
    else:
        assembler.add(Op.INTEGER, path, SIZES[field.type], *keeps)


def _compile_tags(assembler: Assembler, fields: list[Field], scope: _Scope) -> None:
    inside = scope._replace(depth=scope.depth + 1)
    tags = assembler.add(Op.TAGS, scope.path, 0, 0, 0, scope.depth)
    tag = assembler.add(Op.TAG, scope.path, 0, len(fields), 0, scope.depth)
    cases = [assembler.add(Op.CASE, scope.path_of(field), field.tag or 0) for field in fields]
    for case, field in zip(cases, fields, strict=True):
        assembler.set(case, 1, assembler.here)
        _compile_field(assembler, field, inside)
        assembler.add(Op.END_TAG, scope.path_of(field), tag, 0, 0, scope.depth)
    assembler.set(tags, 0, assembler.here)
    assembler.set(tag, 0, assembler.here)


def _smallest(field: Field, version: int, flexible: bool) -> int:
    """Return the fewest bytes that an element of an array can take."""
    if field.type in PREFIXES:
        return max(PREFIXES[field.type][flexible], 1)
    if field.type != "struct":
        return abs(SIZES[field.type])
    inside = [child for child in fields_at(field, version) if child.tag is None]
    return flexible + sum(_smallest_field(child, version, flexible) for child in inside)


def _smallest_field(field: Field, version: int, flexible: bool) -> int:
    if field.array:
        return 1 if flexible else 4
    if field.type == "struct" and version in field.nullable:
        return 1
    return _smallest(field, version, flexible)


LISTENER = {"host", "port"}
TOPIC_ROLES = {"topic", "topic_id"}
BROKER_ROLES = {register.role for register in BROKER}
MESSAGE_REGISTERS = {register.role: MESSAGE_SLOTS[register.column] for register in MESSAGE}
ROW_REGISTERS = {register.role: MESSAGE_WIDTH + ROW_SLOTS[register.column] for register in ROW}
KEEP_TOO = ROW_REGISTERS | {
    register.role: MESSAGE_WIDTH + ROW_VALUES + BROKER_SLOTS[register.column] for register in BROKER
}
SIZES = {  # of the primitives of a fixed size; negative: unsigned
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": -2,
    "int32": 4,
    "int64": 8,
    "float64": 8,
    "uuid": 16,
}
PREFIXES = {  # of the others: in versions that are not flexible, and in those that are
    "string": (Prefix.INT16, Prefix.VARINT),
    "int16_string": (Prefix.INT16, Prefix.INT16),
    "bytes": (Prefix.INT32, Prefix.VARINT),
    "records": (Prefix.INT32, Prefix.VARINT),
}
