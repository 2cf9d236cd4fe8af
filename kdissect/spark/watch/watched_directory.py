"""Input of a watch: a directory, and whether more will come into it."""

from kdissect.errors import UserError


class WatchedDirectory:
    """A directory that others write captures to, for ever."""

    def __init__(self, directory: str, label: str | None = None) -> None:
        """`label` is what a run that goes on must have in common with the one before."""
        self.directory, self.label = directory, label or directory

    def name_of(self, path: str) -> str:
        """Return the name of a file for the user."""
        return path

    @property
    def has_ended(self) -> bool:
        """Return whether nothing more will come: when all is read, all connections end."""
        return False

    def failure(self) -> UserError | None:
        """Return why nothing more comes, if that is not as it should be; then connections stay open."""
        return None
