"""`kdissect schema`: the known APIs, versions and fields."""

import argparse
import sys

from kdissect.errors import UsageError
from kdissect.text import did_you_mean


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


def _answer(name: str | None, version: int | str | None) -> list[str]:
    from kdissect.dump import kafka07_schema_text, schema_text
    from kdissect.protocol.schema.registry import APIS

    is_kafka07 = version == kafka07_schema_text.RELEASE
    if name is None and version is None:
        return [*schema_text.api_table(), "", *kafka07_schema_text.request_table()]
    if name is None and is_kafka07:
        return kafka07_schema_text.request_table()
    if name is None:
        raise UsageError("--version needs an API")
    api, kind = schema_text.find_api(name), kafka07_schema_text.find_request(name)
    if kind is not None and (is_kafka07 or (api is None and version is None)):
        return kafka07_schema_text.request_fields(kind)
    if is_kafka07:
        raise UsageError(
            f"{name!r} is not a request of Kafka {version}; 'kdissect schema --version {version}' lists them"
        )
    if api is None:
        hint = did_you_mean(name, (known.name for known in APIS.values()))
        raise UsageError(f"{name!r} is not an API of Kafka{hint} ('kdissect schema' lists them)")
    return schema_text.api_fields(api, None if version is None else int(version))


def _version(text: str) -> int | str:
    from kdissect.dump.kafka07_schema_text import RELEASE

    if text == RELEASE:
        return text
    if not text.isdecimal() or len(text) > 5:
        raise argparse.ArgumentTypeError(f"{text!r} is not a version; examples: 12, {RELEASE}")
    return int(text)
