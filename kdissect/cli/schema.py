"""`kdissect schema`: the known APIs, versions and fields."""

import argparse
import sys

from kdissect.errors import UsageError


def add_schema(parser: argparse.ArgumentParser) -> None:
    """Add the options of `kdissect schema`."""
    parser.description = "Show which APIs and versions are known, or the fields of one API in one version."
    parser.add_argument("api", nargs="?", metavar="API", help="name or key of an API")
    parser.add_argument(
        "--version",
        type=_version,
        metavar="N",
        help="version of the API (default: newest); 0.7 shows Kafka 0.7, which has no versions",
    )


def schema(arguments: argparse.Namespace) -> None:
    """Run the command."""
    lines = _answer(arguments.api, arguments.version)
    sys.stdout.write("\n".join(lines) + "\n")


def _answer(api: str | None, version: int | str | None) -> list[str]:
    from kdissect.dump.kafka07_schema_text import (
        RELEASE,
        find_request,
        request_fields,
        request_table,
    )
    from kdissect.dump.schema_text import (
        api_fields,
        api_table,
        is_api,
    )

    if api is None and version is None:
        return [*api_table(), "", *request_table()]
    if version == RELEASE:
        return request_table() if api is None else request_fields(api)
    if api is None:
        raise UsageError("--version needs an API")
    if version is None and not is_api(api) and find_request(api) is not None:
        return request_fields(api)
    return api_fields(api, None if version is None else int(version))


def _version(text: str) -> int | str:
    from kdissect.dump.kafka07_schema_text import RELEASE

    if text == RELEASE:
        return text
    if not text.isdecimal() or len(text) > 5:
        raise argparse.ArgumentTypeError(f"{text!r} is no version; 12 and {RELEASE} are")
    return int(text)
