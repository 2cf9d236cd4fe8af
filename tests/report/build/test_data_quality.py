"""Counters of what is missing or uncertain: none in a sound capture, each from its own source."""

from dataclasses import replace

import pytest

from kdissect.report.build.build_report import build_report
from kdissect.report.build.connection_totals import connection_totals
from kdissect.report.build.data_quality import QUALITY_RULES, QualityInput, quality_counters
from kdissect.report.model.summary import CaptureFacts
from kdissect.report.partials import EMPTY
from kdissect.report.query.connection_facts import read_connection_facts

NOTHING = QualityInput(
    CaptureFacts(packets=100),
    connection_totals(read_connection_facts(EMPTY)),
    build_report(EMPTY, CaptureFacts()).totals,
)


def test_names_are_unique_and_texts_are_there():
    assert len({rule.name for rule in QUALITY_RULES}) == len(QUALITY_RULES)
    assert all(rule.means for rule in QUALITY_RULES)


def test_zero_is_not_reported():
    assert quality_counters(NOTHING) == ()


@pytest.mark.parametrize(
    ("part", "field", "name"),
    [
        ("capture", "dropped_packets", "dropped_packets"),
        ("capture", "truncated_packets", "truncated_packets"),
        ("capture", "fragments", "fragments"),
        ("capture", "attempts", "attempts"),
        ("connections", "conflicting_segments", "conflicting_segments"),
        ("connections", "overheld_waits", "overheld_waits"),
        ("connections", "duplicate_packets", "duplicate_packets"),
        ("totals", "faults", "faults"),
        ("totals", "untimed", "untimed"),
        ("totals", "orphan_responses", "unmatched"),
    ],
)
def test_each_count_has_its_counter(part, field, name):
    source = NOTHING._replace(**{part: replace(getattr(NOTHING, part), **{field: 3})})
    (counter,) = quality_counters(source)
    assert (counter.name, counter.count) == (name, 3)


def test_dropped_packets_are_a_part_of_all():
    source = NOTHING._replace(capture=replace(NOTHING.capture, dropped_packets=25))
    (counter,) = quality_counters(source)
    assert counter.of == 125
