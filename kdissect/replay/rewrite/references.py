"""Which topics and groups a decoded request names, and which errors a response has.

The rules are those of the filters (`exchanges.filter`), applied to a body alone.
"""

from collections.abc import Iterator, Mapping

from kdissect.exchanges.field_search import finder
from kdissect.exchanges.filter import ERROR_ROLES, GROUP_ROLES, TOPIC_ROLES, group_in, topic_in
from kdissect.protocol.schema.registry import APIS, is_known
from kdissect.replay.rewrite.names import Tree


def topics_of(key: int, version: int, body: Tree, names: Mapping[bytes, str]) -> list[str]:
    """Return the topics of a request as captured; `names` are those of topic ids."""
    find = finder(APIS[key].request, version, TOPIC_ROLES)
    found = (topic_in(mention, names) for mention in (find(body) if find else ()))
    return [topic for topic in found if topic is not None]


def groups_of(key: int, version: int, body: Tree) -> list[str]:
    """Return the groups of a request as captured."""
    find = finder(APIS[key].request, version, GROUP_ROLES)
    found = (group_in(mention) for mention in (find(body) if find else ()))
    return [group for group in found if group is not None]


def errors_of(key: int, version: int, body: Tree) -> Iterator[int]:
    """Return the error codes of a response that are not 0, in wire order."""
    if not is_known(key, version):
        return
    find = finder(APIS[key].response, version, ERROR_ROLES)
    for _, value, _ in find(body) if find else ():
        if value:
            yield value
