"""`python -m tests.docs` writes what is made from the code: blocks of docs/, and the JSON Schema of a report.

With `--check` it says what is stale and exits with 1.
"""

import sys

from tests.docs.blocks import DOCS, ROOT, stale_pages
from tests.docs.man_page import MAN_PAGE, stale_man_page
from tests.docs.report_schema import SCHEMA, stale_schema


def main(arguments: list[str]) -> int:
    """Write or check; return the exit code."""
    stale = {DOCS / name: text for name, text in stale_pages().items()}
    if schema := stale_schema():
        stale[SCHEMA] = schema
    if page := stale_man_page():
        stale[MAN_PAGE] = page
    for path, text in stale.items():
        name = path.relative_to(ROOT).as_posix()
        if "--check" in arguments:
            print(f"{name} is stale: run python -m tests.docs")
        else:
            path.write_text(text, "utf-8")
            print(f"{name} written")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
