"""Rules at work: every rule judges the scene, and what they found is put in order of severity and weight."""

from collections.abc import Sequence

from kdissect.report.findings.context import FindingContext, FindingRule
from kdissect.report.findings.rules import RULES
from kdissect.report.model.summary import Finding, Severity

MOST_EVIDENCE = 50
ORDER = tuple(Severity)


def apply_rules(scene: FindingContext, rules: Sequence[FindingRule] = RULES) -> tuple[Finding, ...]:
    """Give what the rules found, most severe first, then in the order of the table."""
    found = []
    for rule in rules:
        judged = rule.judge(scene)
        if judged is None:
            continue
        firsts = [row.first_time_ns for row in judged.evidence if row.first_time_ns is not None]
        lasts = [row.last_time_ns for row in judged.evidence if row.last_time_ns is not None]
        found.append(
            Finding(
                name=rule.name,
                severity=judged.severity or rule.severity,
                title=judged.title,
                count=sum(row.count for row in judged.evidence),
                first_time_ns=min(firsts, default=None),
                last_time_ns=max(lasts, default=None),
                evidence=tuple(judged.evidence[:MOST_EVIDENCE]),
                evidence_omitted=max(len(judged.evidence) - MOST_EVIDENCE, 0),
                means=rule.means,
                next=rule.next,
            )
        )
    return tuple(sorted(found, key=lambda finding: ORDER.index(finding.severity)))
