"""A captured request as the target gets it: in a version that it speaks, with its values by role.

A handler puts in what only its API needs (positions, producers, members); this module has what all share.
"""

from functools import lru_cache

from kdissect.protocol.schema.registry import APIS, api_name
from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.pass_state import PassNotes
from kdissect.replay.rewrite.names import Names, Tree
from kdissect.replay.rewrite.roles import rewriter
from kdissect.replay.rewrite.versions import Range, chosen_version, convert
from kdissect.replay.settings import ReplaySettings
from kdissect.replay.target.cluster import TargetCluster

NEWEST = 99  # above every version


class RequestRewriter:
    """Versions and values of the requests of a pass."""

    def __init__(
        self, settings: ReplaySettings, cluster: TargetCluster, names: Names, notes: PassNotes
    ) -> None:
        self._settings, self._cluster, self._names, self._notes = settings, cluster, names, notes

    def version(self, item: ReplayItem, least: int = 0, most: int = NEWEST) -> int:
        """Return the version in which a request is sent.

        Raise SkipRequest if the target speaks none within the bounds.
        """
        key = item.request.key
        version = _version(key, item.request.version or 0, self._cluster.versions.get(key), least, most)
        if version is None:
            raise SkipRequest(Disposition.VERSION, f"the target does not speak {api_name(key)}")
        return version

    def rewrite(self, item: ReplayItem, body: Tree, version: int) -> Tree:
        """Return a request with the target's values in another version; `body` is changed.

        Raise SkipRequest for a value that cannot be carried over, and for a loss that the settings do not
        allow.
        """
        request = item.request
        captured = request.version or 0
        rewriter(APIS[request.key].request, captured)(body, self._names)
        return body if captured == version else self._convert(item, body, captured, version)

    def client_id(self, item: ReplayItem) -> str | None:
        """Return the client id of a request on the target."""
        return self._names.client_id(item.client_id)

    def _convert(self, item: ReplayItem, body: Tree, captured: int, version: int) -> Tree:
        converted = convert(item.request.key, body, captured, version, self._names)
        what, lost = f"{api_name(item.request.key)} v{captured} as v{version}", ", ".join(converted.losses)
        if lost and not self._settings.allow_lossy:
            raise SkipRequest(Disposition.LOSSY, f"{what} loses {lost}")
        self._notes.add(item, f"{what}, without {lost}" if lost else what)
        return converted.tree


@lru_cache(1 << 10)
def _version(key: int, captured: int, spoken: Range | None, least: int, most: int) -> int | None:
    limited = spoken and (max(spoken[0], least), min(spoken[1], most))
    return chosen_version(key, captured, limited)
