"""The generated blocks of docs/: complete, each in one page, and as the code has them."""

from collections import Counter

import pytest

from tests.docs.blocks import DOCS, blocks, blocks_in, renewed, stale_pages


def test_no_page_is_stale() -> None:
    assert sorted(stale_pages()) == [], "run python -m tests.docs"


def test_every_block_stands_in_one_page() -> None:
    pages = [path.read_text("utf-8") for path in DOCS.glob("*.md")]
    placed = Counter(name for page in pages for name in blocks_in(page))
    assert placed == Counter(blocks().keys())


def test_a_block_is_replaced_and_the_rest_stays() -> None:
    page = "before\n<!-- generated: doubts -->\nold\n<!-- end -->\nafter\n"
    new = renewed(page)
    assert new.startswith("before\n<!-- generated: doubts -->\n\n| counter |")
    assert new.endswith("\n\n<!-- end -->\nafter\n")
    assert "old" not in new.splitlines()
    assert renewed(new) == new


def test_a_block_that_nothing_makes_is_an_error() -> None:
    with pytest.raises(KeyError, match="nothing of the kind"):
        renewed("<!-- generated: nothing of the kind -->\n<!-- end -->\n")


@pytest.mark.parametrize(
    ("block", "line"),
    [
        ("commands", "| [`replay run`](#kdissect-replay-run) | "),
        ("command export", "| `--table connections\\|exchanges\\|"),
        ("options on Spark", "| `--master URL` | "),
        ("options of replay", "| `--target HOST:PORT[,HOST:PORT]` | "),
        ("filters", "| `--topic NAME` | "),
        ("table exchanges", "| `latency_ns` | int64, ns | "),
        ("findings", "| [slow_broker](#slow_broker) | warning | "),
        ("findings critical", "### unanswered_timeout"),
        ("doubts", "| `lost_bytes` | "),
    ],
)
def test_a_block_has(block: str, line: str) -> None:
    assert any(made.startswith(line) for made in blocks()[block]().splitlines())


def test_a_command_does_not_repeat_what_several_share() -> None:
    made = blocks()["command analyze"]()
    assert "`--full`" in made
    assert "--master" not in made
    assert "--since" not in made
