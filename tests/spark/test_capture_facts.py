"""The facts of a capture that a report begins with."""

from types import SimpleNamespace
from typing import Any

from kdissect.capture.packets.link_layer import LINK_TYPES
from kdissect.spark.capture_facts import link_names


def index(*kinds: frozenset[int]) -> Any:
    return SimpleNamespace(files=[SimpleNamespace(link_types=each) for each in kinds])


def test_every_link_type_that_is_read_has_its_name() -> None:
    for kind, link_type in LINK_TYPES.items():
        assert link_names(index(frozenset({kind}))) == (link_type.name,)


def test_link_types_that_are_not_read_keep_their_number() -> None:
    assert link_names(index(frozenset({147}))) == ("link type 147",)
    assert link_names(index(frozenset({-1, 1}))) == ("not described", "Ethernet")


def test_a_name_is_given_once() -> None:
    assert link_names(index(frozenset({12, 101}), frozenset({14, 113}))) == ("raw IP", "Linux cooked")
