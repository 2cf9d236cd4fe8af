"""The options for payload: where schemas come from, and which records are wanted."""

import argparse
import sys
from typing import TYPE_CHECKING

from kdissect.cli.secret_sources import REGISTRY_VARIABLE, read_secret
from kdissect.text import escape_control

if TYPE_CHECKING:
    from kdissect.payload.payload_decoder import PayloadDecoder
    from kdissect.payload.schema_store import SchemaSource, SchemaStore
    from kdissect.payload.where import Test


def add_schema_folder(parser: argparse.ArgumentParser) -> None:
    """Add --schemas."""
    parser.add_argument(
        "--schemas",
        metavar="DIR",
        help="decode keys and values with the schemas in this directory: 17.avsc, 17.desc or 17.json by id, "
        "orders-value.avsc by subject",
    )


def add_schemas(parser: argparse.ArgumentParser) -> None:
    """Add --schemas, --schema-registry and --schema-registry-password-file."""
    add_schema_folder(parser)
    parser.add_argument(
        "--schema-registry",
        metavar="URL",
        help="decode keys and values with the schemas of this registry, such as https://registry:8081",
    )
    parser.add_argument(
        "--schema-registry-password-file",
        metavar="FILE",
        help="user:password for the registry, in the first line of this file, - asks for it; "
        f"${REGISTRY_VARIABLE} may hold it instead; sent over https only",
    )


def add_where(parser: argparse.ArgumentParser) -> None:
    """Add --where."""
    parser.add_argument(
        "--where",
        type=where_argument,
        metavar="EXPRESSION",
        help="only records that match, such as \"value.amount > 100 and key = 'k7'\" (implies --records)",
    )


def where_argument(text: str) -> "Test":
    """Return the test that an expression describes. Raise ArgumentTypeError."""
    from kdissect.payload.where import WhereError, parse_where

    try:
        return parse_where(text)
    except WhereError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def folder_schemas(arguments: argparse.Namespace) -> "SchemaStore | None":
    """Return the schemas of --schemas, None without it. Raise UserError if they cannot be read."""
    folder = getattr(arguments, "schemas", None)
    if not folder:
        return None
    from kdissect.payload.schema_files import SchemaFolder
    from kdissect.payload.schema_store import SchemaStore

    return SchemaStore([SchemaFolder(folder)])


def payload_decoder(arguments: argparse.Namespace) -> "PayloadDecoder":
    """Return the decoder that the options describe. Raise UserError for schemas that cannot be read."""
    from kdissect.payload.payload_decoder import PayloadDecoder
    from kdissect.payload.schema_files import SchemaFolder
    from kdissect.payload.schema_registry import SchemaRegistry
    from kdissect.payload.schema_store import SchemaStore

    sources: list[SchemaSource] = []
    if arguments.schemas:
        sources.append(SchemaFolder(arguments.schemas))
    if arguments.schema_registry:
        file = arguments.schema_registry_password_file
        credentials = read_secret("password of the schema registry", file, REGISTRY_VARIABLE, _warn)
        sources.append(SchemaRegistry(arguments.schema_registry, credentials))
    return PayloadDecoder(SchemaStore(sources) if sources else None)


def _warn(sentence: str) -> None:
    sys.stderr.write(f"kdissect: {escape_control(sentence)}\n")
