"""Settings that a run that goes on must have in common with the one before."""

from dataclasses import replace

from kdissect.report.model.summary import AppliedFilter
from kdissect.spark.watch.watch_settings import WatchSettings
from kdissect.spark.watch.watched_directory import WatchedDirectory


def test_what_decides_about_rows_must_be_the_same() -> None:
    settings = WatchSettings(
        WatchedDirectory("s3://user:secret@bucket/ring", "s3://bucket/ring"), ports=(2, 1)
    )
    about = settings.about()
    assert about == {"directory": "s3://bucket/ring", "ports": [1, 2], "partitions": 4}
    filtered = replace(settings, filters=(AppliedFilter(option="topic", values=("orders",)),))
    assert filtered.about() == {**about, "filters": [["topic", "orders"]]}
    for change in ({"every_s": 1.0}, {"most_files": 1}, {"settle_s": 0.0}, {"skip_behind_s": 1.0}):
        assert replace(settings, **change).about() == about
