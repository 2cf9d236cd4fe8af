"""The options of `watch`: what is refused."""

from pathlib import Path

import pytest

from kdissect.cli.arguments import parse


@pytest.mark.parametrize("option", ["--metrics", "--keep", "--topic"])
def test_what_is_not_there_is_refused(option: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as exit:
        parse(["watch", str(tmp_path), option, "x"])
    assert exit.value.code == 2


def test_a_cluster_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        parse(["watch", str(tmp_path), "--master", "spark://host:7077"])
