"""The blocks of docs/incidents.md: one section for each cause, and the list of kinds of signals."""

from collections.abc import Callable, Mapping

from kdissect.report.findings.rules import RULES
from kdissect.report.incidents.cause import Cause
from kdissect.report.incidents.causes import CAUSES
from kdissect.report.signals.sources import KINDS
from tests.docs.markdown import table


def blocks() -> Mapping[str, Callable[[], str]]:
    """Return the sections of causes and the table of signals."""
    return {"incidents": _causes, "signals": _signals}


def _causes() -> str:
    rows = [(f"[{cause.name}](#{cause.name})", cause.severity, cause.means) for cause in CAUSES]
    sections = [_section(cause) for cause in CAUSES]
    return "\n\n".join([table(("cause", "severity", "what it means"), rows), *sections])


def _section(cause: Cause) -> str:
    lines = [f"- Needs: {cause.needs}"]
    if cause.against:
        lines.append(f"- Speaks against it: {cause.against}")
    lines.append(f"- Look at: {cause.next}")
    return f"### {cause.name}\n\n{cause.means}\n\n" + "\n".join(lines)


def _signals() -> str:
    rules = {rule.name for rule in RULES}
    rows = [(f"`{kind.name}`", kind.words, kind.counts) for kind in KINDS.values() if kind.name not in rules]
    return table(("signal", "what it is", "its requests are"), rows)
