"""An upgrade check as text."""

from dataclasses import replace

from kdissect.report.build.check_upgrade import check_upgrade
from kdissect.report.partials import summarise
from kdissect.report.render.terminal import Terminal
from kdissect.report.render.upgrade_text import render
from tests.helpers.old_clients import old_clients


def test_told():
    text = render(check_upgrade(old_clients(), "4.0"), Terminal(100))
    assert "Produce of Kafka 0.7" in text
    assert "move to KRaft" in text
    assert "1 connection cannot be judged" in text
    nothing = render(check_upgrade(summarise({}), "4.0"), Terminal(100))
    assert "no problems: all 0 clients" in nothing


def test_one_client_is_the_only_one():
    check = replace(check_upgrade(summarise({}), "4.0"), clients=1)
    assert "no problems: the only client uses versions that it serves" in render(check, Terminal(100))
