"""Numbers that several processes note."""

from pathlib import Path

from kdissect.spark.number_log import NumberLog


def test_numbers_are_kept_in_order(tmp_path: Path) -> None:
    log = NumberLog(str(tmp_path / "log"))
    assert log.numbers() == []
    for number in (3, -1, 1 << 62):
        NumberLog(log.path).append(number)
    assert log.numbers() == [3, -1, 1 << 62]


def test_a_log_without_a_place_fails_nothing() -> None:
    log = NumberLog("/no such folder/log")
    log.append(1)
    assert log.numbers() == []
