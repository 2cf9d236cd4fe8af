"""The rules at work: each judges the capture, and the findings are ordered by severity."""

from collections.abc import Sequence

from kdissect.report.findings.finding_context import (
    MAX_EVIDENCE,
    FindingContext,
    FindingRule,
    Judgement,
)
from kdissect.report.findings.rules import RULES
from kdissect.report.model.findings import Finding, Severity
from kdissect.report.model.limited import limited

SEVERITIES = tuple(Severity)


def apply_rules(context: FindingContext, rules: Sequence[FindingRule] = RULES) -> tuple[Finding, ...]:
    """Return the findings, most severe first, then in the order of the table of rules."""
    judged = ((rule, rule.judge(context)) for rule in rules)
    findings = [_finding(rule, judgement) for rule, judgement in judged if judgement is not None]
    return tuple(sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity)))


def _finding(rule: FindingRule, judgement: Judgement) -> Finding:
    shown, rest = limited(judgement.evidence, MAX_EVIDENCE), judgement.rest
    firsts = [*(row.first_time_ns for row in judgement.evidence), rest.first_ns]
    lasts = [*(row.last_time_ns for row in judgement.evidence), rest.last_ns]
    return Finding(
        name=rule.name,
        severity=judgement.severity or rule.severity,
        title=judgement.title,
        count=sum(row.count for row in judgement.evidence) + rest.exchanges,
        first_time_ns=min((time_ns for time_ns in firsts if time_ns is not None), default=None),
        last_time_ns=max((time_ns for time_ns in lasts if time_ns is not None), default=None),
        evidence=shown.rows,
        evidence_omitted=shown.omitted + rest.rows,
        means=rule.means,
        next=rule.next,
    )
