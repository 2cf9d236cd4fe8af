"""The tables of signals and incidents have the rows of the report."""

from kdissect.report.build.incident_tables import REPORT_COLUMNS, incident_tables
from tests.helpers import recorded


def test_rows_are_those_of_the_report_and_refer_to_each_other():
    summary = recorded.analyzed("pause.pcapng")[0]
    tables = incident_tables(summary)
    for name, columns in REPORT_COLUMNS.items():
        assert tables[name].schema.names == [column.name for column in columns]
    signals, incidents = (tables[name].to_pylist() for name in ("signals", "incidents"))
    assert (len(signals), len(incidents)) == (len(summary.signals), len(summary.incidents))
    assert incidents[0]["headline"] == summary.incidents[0].headline
    for number, incident in enumerate(summary.incidents):
        joined = [row["signal"] for row in signals if row["incident"] == number]
        assert joined == sorted(incident.signals)
