"""The columns of the tables as Spark shows them: with their comments, and with times that people can read.

In comes a DataFrame of a public table with its columns (`tables.schemas`), out comes one of the same rows.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kdissect.tables.column import TIME, Column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TIME_TEXT = (
    "concat(date_format(timestamp_micros({0} div 1000), \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\"), "
    "lpad(cast(pmod({0}, 1000) as string), 3, '0'), 'Z')"
)
"""Nanoseconds since the epoch as ISO 8601 with nine digits: a timestamp of Spark has six."""


def with_comments(frame: "DataFrame", columns: Sequence[Column]) -> "DataFrame":
    """Return the table with a comment on each column: its meaning, its unit, and what null means."""
    return frame.select(
        *(
            frame[column.name].alias(column.name, metadata={"comment": comment_of(column)})
            for column in columns
        )
    )


def comment_of(column: Column) -> str:
    """Return the comment of a column."""
    unit = f" ({column.unit})" if column.unit else ""
    null = f"; null: {column.null}" if column.null else ""
    return f"{column.meaning}{unit}{null}"


def with_time_texts(frame: "DataFrame", columns: Sequence[Column]) -> "DataFrame":
    """Return the table with its times as text: 2026-05-01T12:00:05.632000000Z."""
    from pyspark.sql.functions import expr

    frame.sparkSession.conf.set("spark.sql.session.timeZone", "UTC")
    return frame.select(
        *(
            expr(TIME_TEXT.format(column.name)).alias(column.name)
            if column.unit == TIME
            else frame[column.name]
            for column in columns
        )
    )
