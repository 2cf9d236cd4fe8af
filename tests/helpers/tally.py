"""A small table of a partial, with a column of each kind."""

from kdissect.report.aggregate.partial_tables import PartialTable
from kdissect.tables.column import INT64, TEXT

TALLY = PartialTable(
    "tally",
    keys=(("who", TEXT),),
    sums=("count",),
    lowest=("first",),
    highest=("last",),
    order=("at", "packet"),
    first=(("at", INT64), ("packet", INT64)),
)
