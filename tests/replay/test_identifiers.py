"""`replay.identifiers`: every alias is in the table, with as many fields as the tuple has."""

from __future__ import annotations

import re
from typing import get_args

from kdissect.replay import identifiers


def test_the_table_has_every_alias_and_its_fields() -> None:
    rows = re.findall(r"^\| `(\w+)` *\| ([^|]+?) *\|", identifiers.__doc__ or "", re.MULTILINE)
    aliases = {name: value for name, value in vars(identifiers).items() if get_args(value)}
    assert {name: len(fields.split(",")) for name, fields in rows} == {
        name: len(get_args(value)) for name, value in aliases.items()
    }
    assert len(rows) >= 8
