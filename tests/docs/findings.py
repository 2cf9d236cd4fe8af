"""The blocks of docs/findings.md: one section for each finding of a severity, from the table of rules."""

from collections.abc import Callable, Mapping
from functools import partial

from kdissect.protocol.error_codes import error_name
from kdissect.report.findings.finding_context import FindingRule
from kdissect.report.findings.rules import RULES
from kdissect.report.model.findings import Severity
from tests.docs.markdown import table


def blocks() -> Mapping[str, Callable[[], str]]:
    """Return the list of all findings, and one block for each severity."""
    return {"findings": _list} | {
        f"findings {severity}": partial(_sections, severity) for severity in Severity
    }


def _list() -> str:
    return table(
        ("finding", "severity", "what it means"),
        [(f"[{rule.name}](#{rule.name})", rule.severity, rule.means) for rule in RULES],
    )


def _sections(severity: Severity) -> str:
    return "\n\n".join(_section(rule) for rule in RULES if rule.severity is severity)


def _section(rule: FindingRule) -> str:
    parts = (f"### {rule.name}", rule.means, f"- Reported for: {_cause(rule)}", f"- Look at: {rule.next}")
    return "\n\n".join(parts[:3]) + f"\n{parts[3]}"


def _cause(rule: FindingRule) -> str:
    """Return what a rule looks for.

    Its errors if it is about errors, else the first line of its docstring.
    """
    if isinstance(rule.judge, partial):
        names = sorted(error_name(code) for code in rule.judge.keywords["wanted"])
        return f"error {', '.join(names)}"
    first = (rule.judge.__doc__ or "").strip().partition("\n")[0].rstrip(".")
    is_acronym = first[:2].isupper()
    return first if is_acronym else first[:1].lower() + first[1:]
