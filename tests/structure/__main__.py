"""Check the structure of the source: `python -m tests.structure`.

Every violation is a line `path:line: rule: sentence`, and the exit code is 1 if there is one. `--count`
prints how many there are of each rule instead.
"""

import argparse
import gc
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.structure.project import ROOT, Project
from tests.structure.rules import RULES, check


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the rules and print what they find. Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.structure", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--rules", type=_rules, default=tuple(RULES), metavar="A,B", help=f"of {', '.join(RULES)}"
    )
    parser.add_argument("--count", action="store_true", help="print the number of violations by rule")
    parser.add_argument(
        "--root", type=Path, default=ROOT, metavar="DIR", help="the checkout (default: this one)"
    )
    chosen = parser.parse_args(arguments)
    gc.disable()  # to look for cycles takes two thirds more time, and trees of sources have none
    findings = check(Project(chosen.root), chosen.rules)
    counts = Counter(finding.rule for finding in findings)
    for line in (f"{counts[name]:6} {name}" for name in chosen.rules) if chosen.count else findings:
        print(line)
    print(f"{len(findings)} violations" if findings else "no violations", file=sys.stderr)
    return 1 if findings else 0


def _rules(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := [name for name in names if name not in RULES]:
        raise argparse.ArgumentTypeError(f"no rule is called {unknown[0]!r}; there are {', '.join(RULES)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
