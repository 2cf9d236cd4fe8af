"""`kdissect schema`: which of its answers a question gets."""

import pytest

from kdissect.cli.main import main


@pytest.mark.parametrize(
    ("arguments", "first"),
    [
        (["Metadata", "--version", "1"], "Metadata  key 3, version 1 "),
        (["3", "--version", "1"], "Metadata  key 3, version 1 "),
        (["MultiFetch"], "MultiFetch"),
    ],
)
def test_one_api(arguments: list[str], first: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", *arguments]) == 0
    assert capfd.readouterr().out.startswith(first)


def test_all_apis_and_those_of_kafka_0_7(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    everything = capfd.readouterr().out
    assert main(["schema", "--version", "0.7"]) == 0
    assert everything.endswith(capfd.readouterr().out)
    assert "ConsumerGroupHeartbeat" in everything


def test_a_version_alone_is_a_wrong_question(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "--version", "3"]) == 2
    assert capfd.readouterr().err == "kdissect: --version needs an API\n"


def test_a_name_that_is_nearly_right_comes_with_its_correction(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "Metadta"]) == 2
    assert "did you mean 'Metadata'?" in capfd.readouterr().err
