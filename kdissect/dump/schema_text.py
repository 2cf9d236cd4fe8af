"""The schema for people: the table of all APIs, and the fields of one of them in one version."""

from collections.abc import Iterator, Sequence

from kdissect.errors import UsageError
from kdissect.protocol.releases import RELEASES
from kdissect.protocol.schema.definition import (
    Api,
    Field,
    Message,
    fields_at,
)
from kdissect.protocol.schema.registry import (
    APIS,
    request_header_version,
    response_header_version,
)

COLUMNS = ("KEY", "API", "VERSIONS", "FLEXIBLE", "LIVE", "PAIRS", "FORMER NAME")
GAP = "  "


def api_table() -> list[str]:
    """Write the table of all API keys, and what they add up to."""
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


def api_fields(asked: str, version: int | None) -> list[str]:
    """Write request and response of an API in one version: field, type, role and what else the schema says."""
    api = find_api(asked)
    if version is None:
        version = api.versions[-1]
    if version not in api.versions:
        raise UsageError(f"{api.name} has no version {version}; known are {version_range(api.versions)}")
    kind = "flexible" if version in api.flexible else "not flexible"
    live = f"{'live' if version in api.live else 'not live'} in Kafka {RELEASES[-1]}"
    return [
        f"{api.name}  key {api.key}, version {version} of {version_range(api.versions)}, {kind}, {live}",
        "",
        f"request, after header {request_header_version(api.key, version)}",
        *align(list(field_rows(api.request, version, 1))),
        "",
        f"response, after header {response_header_version(api.key, version)}",
        *align(list(field_rows(api.response, version, 1))),
    ]


def find_api(asked: str) -> Api:
    """Find an API by its key, its name or the name it had before."""
    found = next((api for api in APIS.values() if asked.lower() in _names(api)), None)
    if found is None:
        raise UsageError(f"{asked!r} is no API of Kafka; 'kdissect schema' lists them")
    return found


def is_api(asked: str) -> bool:
    """Tell whether there is such an API."""
    return any(asked.lower() in _names(api) for api in APIS.values())


def _names(api: Api) -> tuple[str, ...]:
    return str(api.key), api.name.lower(), (api.former_name or api.name).lower()


def version_range(versions: range) -> str:
    """Write a range of versions."""
    if not versions:
        return "none"
    return str(versions[0]) if len(versions) == 1 else f"{versions[0]}-{versions[-1]}"


def field_rows(owner: Message | Field, version: int, depth: int) -> Iterator[tuple[str, ...]]:
    """Give name, type, role and remarks of every field in a version, inner ones below theirs."""
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
    """Put cells below each other; no blanks at the ends of lines."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
