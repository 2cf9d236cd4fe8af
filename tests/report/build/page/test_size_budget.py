"""Lists of the page end where their room ends, and names of any length fit."""

import pyarrow as pa

from kdissect.report.build.build_report import build_report
from kdissect.report.build.page import page_data as document_module
from kdissect.report.build.page import pivot
from kdissect.report.build.page.page_data import make_page_data
from kdissect.report.build.page.size_budget import (
    fitting_rows,
    json_size,
    shorten,
)
from kdissect.report.model.summary import CaptureFacts
from kdissect.report.partials import (
    summarise,
)
from kdissect.report.render.html.page import render_page
from tests.helpers import recorded
from tests.report.random_page import random_page


def test_names_of_any_length_fit():
    assert shorten({"a": ["x" * 9000]})["a"][0] == "x" * 120 + "…" + "x" * 60
    tables, grid, _, _ = random_page(exchanges=200)
    for name in ("exchanges", "connections"):
        column = pa.array(
            [one and one + "y" * 20_000 for one in tables[name]["client_id"].to_pylist()], pa.string()
        )
        at = tables[name].schema.get_field_index("client_id")
        tables[name] = tables[name].set_column(at, "client_id", column)
    partial = summarise(tables, grid)
    page = render_page(make_page_data(build_report(partial, CaptureFacts()), partial, grid))
    assert len(page) < 500_000


def test_every_list_ends_where_its_room_ends(monkeypatch):
    assert fitting_rows([[1], [2, 2], [3]], 10) == [[1], [2, 2]]
    assert fitting_rows(["too long to be kept within ten"] * 2, 10) == ["too long to be kept within ten"]
    full = recorded.data("rebalances.pcapng")
    monkeypatch.setattr(document_module, "MOST_FOR_GROUPS", 1000)
    monkeypatch.setattr(document_module, "PAGE", 100_000)
    monkeypatch.setattr(pivot, "LEAST_CHARACTERS", 10_000)
    data = make_page_data(*recorded.analyzed("rebalances.pcapng"))
    for listed, kept in ((full, 6), (data, 1)):
        assert len(listed["groups"]["rows"]) == kept
        assert listed["groups"]["omitted"] == 6 - kept
    assert json_size(data["pivot"]) < json_size(full["pivot"])
