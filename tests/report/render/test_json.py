"""The JSON keeps to its published schema, and says the same twice."""

import json
from dataclasses import fields

import jsonschema
import numpy as np
import pytest

from kdissect.report.build.build_report import build_report
from kdissect.report.model import call_figures, connection_rows, findings, incidents
from kdissect.report.model import summary as names
from kdissect.report.model.summary import CaptureFacts
from kdissect.report.partials import (
    EMPTY,
    merge,
    summarise,
)
from kdissect.report.render.json import json_schema, to_json
from tests.helpers import paper_capture
from tests.helpers import synthetic_tables as synthetic


@pytest.fixture(scope="module")
def validator():
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_reports_satisfy_the_schema(validator, seed):
    tables = paper_capture.tables() if seed is None else synthetic.tables(np.random.default_rng(seed), 800)
    validator.validate(json.loads(to_json(build_report(summarise(tables), paper_capture.CAPTURE))))


def test_a_report_about_nothing_satisfies_the_schema(validator):
    report = json.loads(to_json(build_report(EMPTY, CaptureFacts())))
    validator.validate(report)
    assert report["totals"]["exchanges"] == 0
    assert report["apis"] == report["clients"] == report["topics"] == report["doubts"] == []


def test_the_schema_is_strict(validator):
    report = json.loads(to_json(build_report(EMPTY, CaptureFacts())))
    for wrong in (
        report | {"more": 1},
        report | {"schema_version": 99},
        {k: v for k, v in report.items() if k != "apis"},
    ):
        assert not validator.is_valid(wrong)


MODULES = (names, call_figures, connection_rows, findings, incidents)


def test_the_schema_names_every_field():
    described = json_schema()
    assert list(described["properties"]) == [field.name for field in fields(names.Summary)]
    for name, definition in described["$defs"].items():
        module = next(one for one in MODULES if hasattr(one, name))
        own = [field.name for field in fields(getattr(module, name))]
        assert set(own) - {"figures", "name"} <= set(definition["properties"]), name
        assert definition["required"] == list(definition["properties"]), name


def test_same_tables_same_bytes():
    rng = np.random.default_rng(9)
    whole = synthetic.tables(rng, 500)
    dealt = [summarise(part) for part in synthetic.in_batches(rng, whole, 4)]
    texts = {
        to_json(build_report(merge(order), CaptureFacts()))
        for order in (dealt, dealt[::-1], [summarise(whole)])
    }
    assert len(texts) == 1


def test_figures_stand_beside_the_names_of_a_row():
    report = json.loads(to_json(build_report(summarise(paper_capture.tables()), paper_capture.CAPTURE)))
    assert report["apis"][0]["api_name"] == "Produce"
    assert report["apis"][0]["service"]["count"] == 2
    assert report["clients"][0]["client_id"] == "orders-app"
    assert report["topics"][0]["uses"][0]["clients"][0]["client_software_version"] == "2.6.1"


def test_only_ascii_and_histograms_on_one_line():
    tables = synthetic.tables(np.random.default_rng(3), 200)
    text = to_json(build_report(summarise(tables), CaptureFacts(files=("\x1b[31m\u202e\x9b1.pcap",))))
    assert text.isascii()
    assert "\x1b" not in text
    assert '"histogram": [' in text
    assert all("]" in line for line in text.splitlines() if '"histogram": [' in line)
    assert json.loads(text)["capture"]["files"] == ["\x1b[31m\u202e\x9b1.pcap"]
