"""The model of a report: values that cannot change, and words that scripts rely on."""

import dataclasses

import pytest

from kdissect.report.model import call_figures, comparison, connection_rows, topic_clients, upgrade_check
from kdissect.report.model import summary as module
from kdissect.report.model.findings import Severity
from kdissect.report.model.plain import to_plain
from kdissect.report.model.summary import ProfileBy

MODULES = (module, call_figures, comparison, connection_rows, topic_clients, upgrade_check)
CLASSES = {
    value.__name__: value
    for source in MODULES
    for value in vars(source).values()
    if dataclasses.is_dataclass(value) and value.__module__ == source.__name__
}


@pytest.mark.parametrize("value", CLASSES.values(), ids=CLASSES)
def test_values_cannot_change_and_have_no_other_attributes(value):
    assert value.__dataclass_params__.frozen
    assert hasattr(value, "__slots__")


def test_severities_are_in_order_and_words_of_options_stay():
    assert [severity.value for severity in Severity] == ["critical", "warning", "note"]
    assert [by.value for by in ProfileBy] == ["api", "client", "broker", "topic", "group", "connection"]


def test_every_part_of_a_report_is_plain_data(summary):
    def plain(value):
        if isinstance(value, dict):
            return all(isinstance(name, str) and plain(one) for name, one in value.items())
        if isinstance(value, list):
            return all(map(plain, value))
        return value is None or isinstance(value, str | int | float)

    assert plain(to_plain(summary))
