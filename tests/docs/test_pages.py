"""Pages agree with the code where a test can tell: exit codes, limits, variables, conditions."""

import re

import pytest

from kdissect.errors import ExitCode
from kdissect.limits import LIMITS
from kdissect.protocol.releases import RELEASES
from kdissect.protocol.schema.registry import APIS
from kdissect.report.model.findings import Severity
from kdissect.report.summary_thresholds import COUNTS, LATENCIES
from tests.docs.blocks import DOCS, ROOT

INTERNAL = {"KDISSECT_STANDBY"}
"""Variables that kdissect sets for its own processes."""


def section(page: str, heading: str) -> str:
    """Return the text of a page from a heading to the next one of the same level."""
    text = (DOCS / page).read_text("utf-8")
    found = re.search(rf"^(#+) {re.escape(heading)}\n(.*?)(?=^#{{1,2}} |\Z)", text, re.DOTALL | re.MULTILINE)
    assert found, f"{page} has no section {heading!r}"
    return found[2]


@pytest.mark.parametrize("code", ExitCode)
def test_every_exit_code_is_described(code: ExitCode) -> None:
    cells = re.findall(r"^\| ([\d, ]+) \|", section("cli.md", "Exit codes"), re.MULTILINE)
    assert str(code.value) in ", ".join(cells).split(", ")


@pytest.mark.parametrize("name", LIMITS)
def test_every_limit_is_described_with_its_default(name: str) -> None:
    usual = LIMITS[name].usual
    text = f"{usual >> 20}m" if usual % (1 << 20) == 0 else str(usual)
    assert f"| `{name}` | {text}" in section("limits.md", "Bounds")


def test_the_apis_and_versions_that_are_known_are_counted() -> None:
    versions = sum(len(api.versions) for api in APIS.values())
    known = f"All {len(APIS)} APIs of Kafka {RELEASES[-1]} are known in all {versions} versions"
    assert known in section("limits.md", "What is taken for Kafka")


@pytest.mark.parametrize("figure", [*LATENCIES, *COUNTS])
def test_every_figure_of_a_condition_is_named(figure: str) -> None:
    assert f"`{figure}`" in section("cli.md", "Conditions for `--fail-on`")


@pytest.mark.parametrize("severity", Severity)
def test_every_severity_is_explained(severity: Severity) -> None:
    assert f"\n| {severity} | " in (DOCS / "findings.md").read_text("utf-8")


def test_every_variable_of_the_environment_is_described() -> None:
    sources = (path.read_text("utf-8") for path in sorted((ROOT / "kdissect").rglob("*.py")))
    named = {name for source in sources for name in re.findall(r"\bKDISSECT_[A-Z]+(?:_[A-Z]+)*\b", source)}
    described = set(re.findall(r"KDISSECT_[A-Z_]+", section("cli.md", "Environment variables")))
    assert named - INTERNAL == described


def test_every_page_is_in_the_index() -> None:
    index = (DOCS / "README.md").read_text("utf-8")
    missing = [path.name for path in DOCS.glob("*.md") if f"]({path.name})" not in index]
    assert missing == ["README.md"]
