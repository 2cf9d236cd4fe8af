"""The charts of the page are drawn as the run was."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from kdissect.replay.results.run_comparison import compare
from kdissect.replay.results.run_page import page
from tests.helpers.run_pairs import late, run


@pytest.mark.parametrize("count", [0, 1, 300])
def test_the_course_is_drawn_as_it_was(count: int) -> None:
    made = page(compare(run(count), [late(each, each, each % 7, 1 + each) for each in range(count)]))
    drawn = [ET.fromstring(each) for each in re.findall(r"<svg .*?</svg>", made)]
    planes = [each for each in drawn if each.get("preserveAspectRatio")]
    assert len(planes) == (3 if count else 0)
    for plane, parts in zip(planes, (2, 2, 1), strict=False):
        assert len(plane.findall("path")) == parts
        steps = int(plane.get("viewBox", "").split()[2])
        for path in plane.findall("path"):
            numbers = [float(each) for each in re.findall(r"-?[\d.]+", path.get("d", ""))]
            assert all(-1000 <= each <= max(1000, steps) for each in numbers)
    assert ("+0s" in made) == bool(count)
