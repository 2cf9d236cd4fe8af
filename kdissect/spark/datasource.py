"""The data source of `spark.read.format("kdissect")`: one public table of captures.

Options: `table` (any of `tables.TABLES`; exchanges if nothing is said), `path` (a capture or a directory) and
`port` (only this TCP port); `capture_reader` reads it. A stream (`spark.readStream`) has the table `files`:
closed captures of a directory (`watch.file_stream`).
"""

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from kdissect.spark.watch.file_stream import FILES, FileStream
from kdissect.tables.schemas import TABLES

DEFAULT_TABLE = "exchanges"
FILE_TABLE = "files"  # of a stream


class CaptureSource(DataSource):
    """Reads one public table of captures."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "kdissect"

    def schema(self) -> StructType | str:
        """Return the columns of the requested table."""
        return FILES if self._is_stream else from_arrow_schema(TABLES[self.table])

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - the table decides
        """Return the reader. Raise ValueError without a path."""
        # Loaded here: Spark keeps some processes for a stream, which need nothing of what dissects.
        from kdissect.spark.capture_reader import CaptureReader

        if not self.options.get("path"):
            raise ValueError("kdissect reads a path: load('capture.pcapng')")
        port = self.options.get("port")
        ports = () if port is None else (int(port),)
        return CaptureReader(self.table, str(self.options["path"]), ports, self.options.get("keylog"))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        """Return the reader of a stream, which has capture files and no other table. Raise ValueError."""
        if not self._is_stream:
            raise ValueError(f"a stream has the table {FILE_TABLE!r} only")
        return FileStream(self.options)

    @property
    def _is_stream(self) -> bool:
        return self.options.get("table") == FILE_TABLE

    @property
    def table(self) -> str:
        """The requested table. Raise ValueError for an unknown one."""
        table = str(self.options.get("table", DEFAULT_TABLE))
        if table not in TABLES:
            raise ValueError(f"{table!r} is not a table of kdissect; the tables are {', '.join(TABLES)}")
        return table
