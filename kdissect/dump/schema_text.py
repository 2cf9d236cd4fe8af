"""The schema as text: the table of all APIs, and the fields of one API in one version.

In come definitions of `protocol.schema`, out go lines, in columns as the tables of reports have them.
"""

from collections.abc import Iterator, Sequence

from kdissect.errors import UsageError
from kdissect.protocol.releases import RELEASES
from kdissect.protocol.schema.definition import Api, Field, Message, fields_at
from kdissect.protocol.schema.registry import APIS, request_header_version, response_header_version
from kdissect.report.render.table import TableCell, TableColumn, table_lines
from kdissect.report.render.terminal import Terminal

COLUMNS = ("KEY", "API", "VERSIONS", "FLEXIBLE", "LIVE", "PAIRS", "FORMER NAME")
GAP = "  "
UNLIMITED = Terminal(width=1 << 20)


def api_table() -> list[str]:
    """Return the table of all APIs and, below it, how many APIs and versions there are."""
    rows = [
        (
            str(api.key),
            api.name,
            version_range(api.versions),
            f"{api.flexible.start}+" if api.flexible else "-",
            version_range(api.live),
            str(len(api.versions)),
            api.former_name or "",
        )
        for api in APIS.values()
    ]
    pairs = sum(len(api.versions) for api in APIS.values())
    live = sum(len(api.live) for api in APIS.values())
    return [
        *align([COLUMNS, *rows]),
        "",
        f"{len(APIS)} API keys, {pairs} versions of them, {live} live in Kafka {RELEASES[-1]}",
    ]


def find_api(text: str) -> Api | None:
    """Return the API with this key, name or former name, in any case; None if there is none."""
    return next((api for api in APIS.values() if text.lower() in _names(api)), None)


def _names(api: Api) -> tuple[str, ...]:
    return str(api.key), api.name.lower(), (api.former_name or api.name).lower()


def api_fields(api: Api, version: int | None) -> list[str]:
    """Return the fields of request and response of an API in one version, with type, role and remarks.

    The version None means the newest. Raise UsageError if the API has no such version.
    """
    if version is None:
        version = api.versions[-1]
    if version not in api.versions:
        raise UsageError(f"{api.name} has no version {version}; known are {version_range(api.versions)}")
    kind = "flexible" if version in api.flexible else "not flexible"
    state = "unstable" if version in api.unstable else "live" if version in api.live else "not live"
    live = f"{state} in Kafka {RELEASES[-1]}"
    return [
        f"{api.name}  key {api.key}, version {version} of {version_range(api.versions)}, {kind}, {live}",
        "",
        f"request, after header {request_header_version(api.key, version)}",
        *align(list(field_rows(api.request, version))),
        "",
        f"response, after header {response_header_version(api.key, version)}",
        *align(list(field_rows(api.response, version))),
    ]


def version_range(versions: range) -> str:
    """Return versions as 0-12, 3 or none."""
    if not versions:
        return "none"
    return str(versions[0]) if len(versions) == 1 else f"{versions[0]}-{versions[-1]}"


def field_rows(owner: Message | Field, version: int, depth: int = 1) -> Iterator[tuple[str, ...]]:
    """Yield a row for each field of a message: name, type, role and remarks. Inner fields follow."""
    fields = fields_at(owner, version)
    if not fields and depth == 1:
        yield (f"{GAP}(no fields)",)
    for field in fields:
        yield (
            GAP * depth + field.name,
            _type(field, version),
            f"@{field.role}" if field.role else "",
            ", ".join(_remarks(field)),
        )
        yield from field_rows(field, version, depth + 1)


def _type(field: Field, version: int) -> str:
    plain = "{}" if field.type == "struct" else field.type
    if field.array:
        plain = "[]" if field.type == "struct" else f"[]{field.type}"
    return f"{plain}?" if version in field.nullable else plain


def _remarks(field: Field) -> Iterator[str]:
    if field.tag is not None:
        yield f"tag {field.tag}"
    if field.embedded:
        yield f"holds {field.embedded}"


def align(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a line for each row, with cells in columns as wide as they need to be."""
    columns = [TableColumn(cell, right=False) for cell in rows[0]]
    cells = [[TableCell(cell) for cell in row] for row in rows[1:]]
    return [line[1:] for line in table_lines(columns, cells, UNLIMITED)]  # reports leave a blank in front
