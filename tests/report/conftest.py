"""The capture worked out on paper, which tests of several layers of a report look at."""

import pytest

from kdissect.report.build.build_report import build_report
from kdissect.report.model.summary import Summary
from kdissect.report.partials import Partial, summarise
from tests.helpers import paper_capture


@pytest.fixture(scope="session")
def partial() -> Partial:
    """The capture on paper as a partial."""
    return summarise(paper_capture.tables())


@pytest.fixture(scope="session")
def summary(partial: Partial) -> Summary:
    """The report on it."""
    return build_report(partial, paper_capture.CAPTURE)
