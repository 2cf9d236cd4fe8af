"""The options for payload: where schemas come from, and which records are wanted."""

import argparse
import sys
from typing import TYPE_CHECKING

from kdissect.cli.secret_sources import REGISTRY_VARIABLE, read_secret
from kdissect.errors import UserError
from kdissect.text import escape_control

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kdissect.capture.index.splits import Split
    from kdissect.payload.payload_decoder import PayloadDecoder
    from kdissect.payload.schema_store import SchemaSource, SchemaStore
    from kdissect.payload.where import Test


def add_schemas(parser: argparse.ArgumentParser) -> None:
    """Add --schemas, --schema-registry and --schema-registry-password-file."""
    parser.add_argument(
        "--schemas",
        metavar="DIR",
        help="decode keys and values with the schemas in this directory: 17.avsc, 17.desc or 17.json by id, "
        "orders-value.avsc by subject",
    )
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


def payload_decoder(arguments: argparse.Namespace, splits: "Sequence[Split]" = ()) -> "PayloadDecoder":
    """Return the decoder that the options describe, which also knows the schemas that the splits have.

    Raise UserError for schemas that cannot be read.
    """
    from kdissect.exchanges.captured_schemas import CapturedSchemas
    from kdissect.payload.payload_decoder import PayloadDecoder
    from kdissect.payload.schema_store import SchemaStore

    store = schema_store(arguments)
    if splits:
        store = (store or SchemaStore()).with_source(CapturedSchemas(splits, arguments.port))
    return PayloadDecoder(store)


def schema_store(arguments: argparse.Namespace, local: bool = True) -> "SchemaStore | None":
    """Return the schemas that the options name, None if they name none or the command has no such options.

    Raise UserError if they cannot be read, or if credentials would go to a cluster.
    """
    folder, url = (getattr(arguments, name, None) for name in ("schemas", "schema_registry"))
    if not folder and not url:
        return None
    from kdissect.payload.schema_files import SchemaFolder
    from kdissect.payload.schema_registry import SchemaRegistry
    from kdissect.payload.schema_store import SchemaStore

    sources: list[SchemaSource] = [SchemaFolder(folder)] if folder else []
    if url:
        file = arguments.schema_registry_password_file
        credentials = read_secret("password of the schema registry", file, REGISTRY_VARIABLE, _warn)
        if credentials and not local:
            raise UserError("credentials of a schema registry are not sent to a cluster: use --schemas DIR")
        sources.append(SchemaRegistry(url, credentials))
    return SchemaStore(sources)


def _warn(sentence: str) -> None:
    sys.stderr.write(f"kdissect: {escape_control(sentence)}\n")
