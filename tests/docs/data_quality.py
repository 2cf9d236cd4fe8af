"""The block of docs/limits.md with the counters of what a capture cannot tell, from their table of rules."""

from collections.abc import Callable, Mapping

from kdissect.report.build.data_quality import QUALITY_RULES
from tests.docs.markdown import table


def blocks() -> Mapping[str, Callable[[], str]]:
    """Return the one block."""
    return {
        "doubts": lambda: table(
            ("counter", "what it counts"), [(f"`{r.name}`", r.means) for r in QUALITY_RULES]
        )
    }
