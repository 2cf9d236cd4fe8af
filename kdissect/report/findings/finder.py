"""The rules at work: each judges the capture, and the findings are ordered by severity."""

from collections.abc import Sequence

from kdissect.report.findings.finding_context import (
    FindingContext,
    FindingRule,
    Judgement,
)
from kdissect.report.findings.rules import RULES
from kdissect.report.model.findings import Finding, Severity
from kdissect.report.model.limited import limited

MAX_EVIDENCE = 50
SEVERITIES = tuple(Severity)


def apply_rules(context: FindingContext, rules: Sequence[FindingRule] = RULES) -> tuple[Finding, ...]:
    """Return the findings, most severe first, then in the order of the table of rules."""
    judged = ((rule, rule.judge(context)) for rule in rules)
    findings = [_finding(rule, judgement) for rule, judgement in judged if judgement is not None]
    return tuple(sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity)))


def _finding(rule: FindingRule, judgement: Judgement) -> Finding:
    firsts = [row.first_time_ns for row in judgement.evidence if row.first_time_ns is not None]
    lasts = [row.last_time_ns for row in judgement.evidence if row.last_time_ns is not None]
    evidence = limited(judgement.evidence, MAX_EVIDENCE)
    return Finding(
        name=rule.name,
        severity=judgement.severity or rule.severity,
        title=judgement.title,
        count=sum(row.count for row in judgement.evidence),
        first_time_ns=min(firsts, default=None),
        last_time_ns=max(lasts, default=None),
        evidence=evidence.rows,
        evidence_omitted=evidence.omitted,
        means=rule.means,
        next=rule.next,
    )
