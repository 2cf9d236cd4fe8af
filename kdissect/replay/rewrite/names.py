"""How things are called on the target: topics, groups, transactional ids and instance ids.

In: a captured name or topic id. Out: the target's. The rule: a map of the settings comes first, then the
prefix. Ids are the target's own, learnt from its metadata; a captured id has a name if any message of the
capture tells it (KIP-516).
"""

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.settings import ReplaySettings
from kdissect.text import format_uuid

Tree: TypeAlias = dict[str, Any]
"""A decoded message, or a struct in one, by field names."""

ZERO_ID = bytes(16)
"""The topic id that stands for no id."""


@dataclass(slots=True)
class Names:
    """The names of one run. The ids are those of the target as far as they are known by now."""

    settings: ReplaySettings
    captured_ids: dict[bytes, str]  # as captured: id -> name as captured
    target_ids: dict[str, bytes] = field(default_factory=dict)  # name on the target -> id
    target_names: dict[bytes, str] = field(default_factory=dict)  # the other way round, also of earlier ids
    _topics: dict[str, str] = field(default_factory=dict)  # captured name -> name on the target
    _captured_topics: dict[str, str] = field(default_factory=dict)  # the other way round

    def topic(self, name: str) -> str:
        """Return the name of a captured topic on the target."""
        known = self._topics.get(name)
        if known is None:
            known = self._topics[name] = self._mapped(name, self.settings.topic_map)
            self._captured_topics[known] = name
        return known

    def group(self, name: str) -> str:
        """Return the name of a captured group on the target."""
        return self._mapped(name, self.settings.group_map)

    def transactional(self, name: str) -> str:
        """Return a captured transactional id on the target."""
        return self._mapped(name, self.settings.transactional_map)

    def instance(self, name: str) -> str:
        """Return the instance id of a captured static member (KIP-345) on the target."""
        return self._mapped(name, {})

    def client_id(self, name: str | None) -> str | None:
        """Return a captured client id on the target."""
        return None if name is None else self.settings.client_id_prefix + name

    def topic_id(self, captured: bytes) -> bytes:
        """Return the target's id of a topic that was captured by id.

        Raise SkipRequest if either side does not know it.
        """
        if captured == ZERO_ID:
            return captured
        name = self.captured_ids.get(captured)
        if name is None:
            raise SkipRequest(
                Disposition.HEADLESS, f"topic id {format_uuid(captured)} has no name in the capture"
            )
        return self.id_of(self.topic(name))

    def id_of(self, name: str) -> bytes:
        """Return the id of a topic of the target. Raise SkipRequest if there is no such topic."""
        known = self.target_ids.get(name)
        if known is None or known == ZERO_ID:
            raise SkipRequest(Disposition.DEPENDENCY, f"topic {name} is not on the target")
        return known

    def name_of(self, target_id: bytes) -> str | None:
        """Return the name of a topic of the target by its id."""
        return self.target_names.get(target_id)

    def learn(self, name: str, target_id: bytes) -> None:
        """Note the id of a topic of the target."""
        self.target_ids[name] = target_id
        if target_id != ZERO_ID:
            self.target_names[target_id] = name

    def captured_topic(self, struct: Tree, key: str = "name") -> str | None:
        """Return the captured name of the topic of a captured struct, which has a name or an id."""
        name = struct.get(key)
        return name or self.captured_ids.get(struct.get("topic_id", ZERO_ID))

    def captured_name(self, target: str | None) -> str | None:
        """Return the captured name of a topic of the target that was renamed by `topic`; None for others."""
        return None if target is None else self._captured_topics.get(target)

    def captured_topic_of_target(self, struct: Tree) -> str | None:
        """Return the captured name of the topic of a struct of the target, which has a name or an id."""
        return self.captured_name(struct.get("name") or self.name_of(struct.get("topic_id", ZERO_ID)))

    def _mapped(self, name: str, table: dict[str, str]) -> str:
        return table.get(name, self.settings.prefix + name) if name else name
