"""Clients whose connections servers close at one age, in a request, have a login that is too old."""

from pathlib import Path

import pytest

from tests.helpers.told_capture import Story
from tests.helpers.told_groups import analyzed, background
from tests.report.incidents.test_access_causes import login_that_expires


@pytest.mark.parametrize(("lives", "told"), [(4, True), (2, False)])
def test_who_it_is_and_how_old_the_login_gets(lives: int, told: bool, tmp_path: Path) -> None:
    story = Story()
    background(story)
    login_that_expires(story, lives=lives)
    found = [one for one in analyzed(story, tmp_path).signals if one.kind == "sessions_expired"]
    assert bool(found) is told
    if told:
        assert found[0].subject.name == "forgetful at 10.1.0.2"
        assert found[0].measures["connections"] == lives
        assert "(SASL PLAIN; user bob) is cut off each time that its login is 5.00s old" in found[0].sentence
