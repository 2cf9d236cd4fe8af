"""Clients of topics as text: lines fit."""

import numpy as np
import pytest

from kdissect.report.build.build_report import build_report
from kdissect.report.build.find_topic_clients import find_topic_clients
from kdissect.report.model.summary import CaptureFacts
from kdissect.report.partials import summarise
from kdissect.report.render.terminal import Terminal
from kdissect.report.render.topic_clients_text import render
from kdissect.text import display_width
from tests.helpers import synthetic_tables as synthetic


@pytest.mark.parametrize("width", [80, 120])
def test_lines_fit(width):
    summary = build_report(summarise(synthetic.tables(np.random.default_rng(8), 300)), CaptureFacts())
    text = render(find_topic_clients(summary, "*"), Terminal(width))
    assert max(map(display_width, text.splitlines())) <= width
