"""A directory of others never ends by itself."""

from kdissect.spark.watch.watched_directory import WatchedDirectory


def test_a_directory_never_ends() -> None:
    source = WatchedDirectory("/ring")
    assert (source.label, source.has_ended, source.failure()) == ("/ring", False, None)
