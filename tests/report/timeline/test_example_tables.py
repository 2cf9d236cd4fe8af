"""The tables of examples keep every column of the table `exchanges`, once, and stay small."""

from kdissect.report.timeline.example_tables import EXAMPLE_TABLES
from kdissect.tables.schemas import EXCHANGES


def test_they_have_the_columns_of_exchanges() -> None:
    for part in EXAMPLE_TABLES.values():
        names = part.schema.names
        assert len(names) == len(set(names))
        assert set(EXCHANGES.names) <= set(names)
        assert 0 < part.most <= 3000
