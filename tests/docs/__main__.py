"""`python -m tests.docs` writes the generated blocks of docs/; with `--check` it says which are stale and exits with 1."""

import sys

from tests.docs.blocks import DOCS, stale_pages


def main(arguments: list[str]) -> int:
    """Write or check; return the exit code."""
    stale = stale_pages()
    if "--check" in arguments:
        for name in stale:
            print(f"docs/{name} is stale: run python -m tests.docs")
        return 1 if stale else 0
    for name, text in stale.items():
        (DOCS / name).write_text(text, "utf-8")
        print(f"docs/{name} written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
