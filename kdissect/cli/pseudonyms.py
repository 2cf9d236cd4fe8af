"""What commands with and without Spark ask alike of their arguments."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kdissect.tables.anonymize import Pseudonyms


def pseudonyms_of(chosen: argparse.Namespace) -> "Pseudonyms | None":
    """Give the replacements of names, if they are wanted."""
    from kdissect.tables.anonymize import Pseudonyms

    wanted = chosen.anonymize or chosen.anonymize_key is not None
    return Pseudonyms.new(chosen.anonymize_key) if wanted else None
