"""`kdissect schema`: what is known of the protocol."""

import argparse
import sys


def add_schema(parser: argparse.ArgumentParser) -> None:
    """Say what may be said after `kdissect schema`."""
    parser.description = "Show which APIs and versions are known, or the fields of one API in one version."
    parser.add_argument("api", nargs="?", metavar="API", help="name or key of an API")
    parser.add_argument("--version", type=int, metavar="N", help="version of the API (default: the newest)")


def schema(chosen: argparse.Namespace) -> None:
    """Run the command."""
    from kdissect.dump.coverage import WrongQuestion, coverage, one_api

    try:
        lines = coverage() if chosen.api is None else one_api(chosen.api, chosen.version)
    except WrongQuestion as wrong:
        sys.stderr.write(f"kdissect schema: {wrong}\n")
        raise SystemExit(2) from None
    sys.stdout.write("\n".join(lines) + "\n")
